"""kohya's sd-scripts: the options of its scripts, which are the keys of its TOML files as well."""

from dataclasses import replace

from lun.other_trainers import answers as a
from lun.other_trainers.counterparts import (
    CALLBACKS,
    Counterpart,
    ProgramTable,
    changed,
    elsewhere,
    idle,
    none,
    noted,
    objective,
    recipe_at,
    rows,
    setting,
)
from lun.other_trainers.kohya_data_table import DATA_ROWS

_SETS = "docs/datasets.md"
_RANGE = "timesteps: {target: ldm.diffusion.timesteps.Range, params: {low: LOW, high: HIGH}}"
_HUBER = "loss: {target: ldm.diffusion.loss.Huber, params: {delta: {}}}"

_MODEL = rows(
    ("pretrained_model_name_or_path", a.FROM),
    ("v2", Counterpart(say="`--base sd21-base`; where it predicts v, `--base sd21-v`")),
    ("v_parameterization", a.V),
    ("vae", a.VAE),
    ("tokenizer_cache_dir", idle("nothing to say: the vocabulary comes with the program")),
    ("no_half_vae", idle("nothing to say: the first stage computes in fp32 under fp16")),
    (
        "clip_skip",
        Counterpart(
            ("model.params.cond_stage_config.params.layer=penultimate",),
            example="2",
            choices={"1": idle("nothing to say: the last layer")},
        ),
    ),
    ("max_token_length", setting("model.params.cond_stage_config.params.max_length", "225")),
    ("disable_mmap_load_safetensors", idle("nothing to say: files are read piece by piece")),
)

_SD3 = rows(
    ("clip_l clip_g t5xxl", none("text encoders come with the weights of the model", "clip_l.safetensors")),
    ("t5xxl_device t5xxl_dtype use_t5xxl_cache_only", idle("nothing to say: frozen parts lie where they fit")),
    ("t5xxl_max_token_length", elsewhere(a.T5_LENGTH, "256")),
    ("train_t5xxl", none("T5 stays as it is")),
    ("apply_lg_attn_mask apply_t5_attn_mask", none("padding is seen, as the models were trained")),
    (
        "clip_l_dropout_rate clip_g_dropout_rate t5_dropout_rate",
        none("captions are left out for all encoders at once: `model.params.ucg_rate=0.1`", "0.1"),
    ),
    ("pos_emb_random_crop_rate enable_scaled_pos_embed", none("positions are those of the centre", "0.1")),
    (
        "num_last_block_to_freeze",
        elsewhere(
            "`'model.params.training_config={target: ldm.training.rules.Rules, params: {rules: {last: {match:"
            " unet.transformer_blocks.23.*, train: false}}}}'`",
            "1",
        ),
    ),
    ("save_clip save_t5xxl", idle("nothing to say: `export` says what is written")),
    ("blockwise_fused_optimizers", a.FUSED),
)

_STEPS = rows(
    ("learning_rate", a.RATE),
    ("unet_lr", a.RATE),
    (
        "text_encoder_lr learning_rate_te learning_rate_te1 learning_rate_te2 learning_rate_te3",
        changed(a.TEXT_RATE, "a share of the learning rate, one for all encoders"),
    ),
    ("train_text_encoder", a.TEXT_ENCODER),
    (
        "stop_text_encoder_training",
        recipe_at(
            "model.params.training_config",
            "{target: ldm.training.rules.Rules, params: {rules: {text: {match: text_encoder*, until: {}}}}}",
            "1000",
            ("train-text-encoder",),
        ),
    ),
    (
        "block_lr",
        elsewhere(
            "rules say it by the names of blocks: `'model.params.training_config={target: ldm.training.rules.Rules,"
            " params: {rules: {middle: {match: unet.mid_block*, lr: 0.5x}}}}'`",
            "1e-6,1e-6",
        ),
    ),
    ("lr_scheduler", a.SCHEDULE),
    ("lr_warmup_steps", a.WARM_UP),
    (
        "lr_scheduler_num_cycles",
        a.RESTARTS,
    ),
    ("lr_scheduler_power", none("`polynomial` falls along a line", "2")),
    (
        "lr_scheduler_type lr_scheduler_args lr_decay_steps lr_scheduler_timescale lr_scheduler_min_lr_ratio",
        none("`model.params.scheduler_config.target` names any `step -> factor`, with its own params", "x"),
    ),
    ("optimizer_type", a.OPTIMIZER),
    (
        "optimizer_args",
        replace(elsewhere("`model.params.optimizer_config.params.NAME=VALUE`", "weight_decay=0.1"), pairs=True),
    ),
    ("use_8bit_adam", a.EIGHT_BITS),
    ("use_lion_optimizer", Counterpart(("model.params.optimizer_config.target=pytorch_optimizer.Lion",))),
    ("fused_backward_pass", a.FUSED),
    ("fused_optimizer_groups", noted(a.FUSED, "every parameter is stepped as soon as its gradient is there")),
    ("max_grad_norm", a.CLIP),
    ("gradient_accumulation_steps", a.ACCUMULATE),
    ("max_train_steps", a.STEPS),
    ("max_train_epochs", a.EPOCHS),
    ("seed", a.SEED),
    ("prior_loss_weight", elsewhere(f"`loss_weight` of a set of `kind: class`: {_SETS}", "1.0")),
)

_OBJECTIVE = rows(
    ("min_snr_gamma", a.SNR),
    ("debiased_estimation_loss", a.DEBIASED),
    ("noise_offset", a.OFFSET),
    ("multires_noise_iterations", objective("noise: {target: ldm.diffusion.noise.Pyramid, params: {levels: {}}}", "6")),
    (
        "multires_noise_discount",
        objective("noise: {target: ldm.diffusion.noise.Pyramid, params: {discount: {}}}", "0.3"),
    ),
    ("zero_terminal_snr", a.TERMINAL),
    ("min_timestep", objective(_RANGE.replace("LOW", "{}").replace("HIGH", "1000"), "200")),
    ("max_timestep", objective(_RANGE.replace("LOW", "0").replace("HIGH", "{}"), "800")),
    (
        "loss_type",
        Counterpart(
            ("model.params.loss_type={}",),
            example="l1",
            choices={
                "l2": idle("nothing to say: the square of the error"),
                "huber": changed(
                    objective(_HUBER.replace("{}", "0.1")),
                    "Huber's own, a square that goes on as a line; there a curve that changes with the noise level",
                ),
                "smooth_l1": changed(
                    objective(_HUBER.replace("{}", "0.1")),
                    "Huber's own, a square that goes on as a line; there its smooth kin",
                ),
            },
        ),
    ),
    ("huber_c", changed(objective(_HUBER, "0.1"), "Huber's own, there a smooth curve beside it")),
    ("huber_schedule huber_scale", none("its bound is the same at all noise levels", "snr")),
    (
        "ip_noise_gamma ip_noise_gamma_random_strength adaptive_noise_scale noise_offset_random_strength",
        none("such noise is not known", "0.1"),
    ),
    (
        "scale_v_pred_loss_like_noise_pred v_pred_like_loss",
        none("`model.params.objective.params.weighting` weighs noise levels", ""),
    ),
    (
        "weighting_scheme logit_mean logit_std mode_scale training_shift",
        none("`model.params.objective.params.timesteps`: `LogitNormal`, `Mode`, `Shifted`", "logit_normal"),
    ),
)

_MACHINE = rows(
    ("mixed_precision", a.PRECISION),
    ("full_bf16", a.HALF),
    ("full_fp16", changed(a.HALF, "bfloat16, with gradients that need no scale")),
    ("fp8_base fp8_base_unet", none("the base below adapters in few bits: `--base sd15 lora int8`, or `nf4`")),
    ("gradient_checkpointing", a.CHECKPOINTING),
    (
        "cpu_offload_checkpointing lowram",
        noted(Counterpart(base=("offload-frozen",)), "frozen parts lie in main memory"),
    ),
    ("highvram", idle("nothing to say: nothing is cleared between steps")),
    ("blocks_to_swap", Counterpart((f"{CALLBACKS}.block_swap.params.blocks={{}}",), ("block-swap",), example="8")),
    ("xformers sdpa mem_eff_attn diffusers_xformers split_attn", a.ATTENTION),
    ("torch_compile", a.COMPILE),
    ("dynamo_backend", none("torch's own, inductor", "inductor")),
    ("deepspeed", Counterpart(base=("deepspeed",))),
    ("ddp_timeout ddp_gradient_as_bucket_view ddp_static_graph", Counterpart(base=("ddp",))),
    (
        "zero_stage offload_optimizer_device offload_optimizer_nvme_path offload_param_device offload_param_nvme_path"
        " zero3_init_flag zero3_save_16bit_model fp16_master_weights_and_gradients",
        none("`lightning.deepspeed`, or torch's own sharding: `--base sd15 fsdp`", "2"),
    ),
)

_NETWORK = rows(
    ("network_module", a.ADAPTER),
    ("network_dim", a.RANK),
    ("network_alpha", a.ALPHA),
    ("network_dropout", a.DROPOUT),
    ("network_args", replace(elsewhere("kinds and their params: docs/adapters.md", "conv_dim=8"), pairs=True)),
    ("network_train_unet_only", idle("nothing to say: `lora` trains the UNet alone")),
    ("network_train_text_encoder_only", none("rules of docs/adapters.md that match `text_encoder*` alone")),
    ("network_weights dim_from_weights", none("`python -m lun.convert` merges it into the base", "my.safetensors")),
    ("base_weights base_weights_multiplier", none("`python -m lun.convert` merges it into the base", "a.safetensors")),
    ("scale_weight_norms", none("products are not scaled down", "1.0")),
    ("num_vectors_per_token token_string init_word weights", elsewhere("`--base sd15 ti`: docs/embeddings.md", "x")),
    (
        "use_object_template use_style_template no_token_padding",
        none("captions say how a word is used; `default_caption` where there are none"),
    ),
)

_OUTPUT = rows(
    ("output_dir", a.LOGS),
    ("output_name", a.NAME),
    ("logging_dir log_with log_prefix log_tracker_name log_tracker_config wandb_api_key log_config", a.ALWAYS),
    ("wandb_run_name", a.NAME),
    (
        "console_log_file console_log_level console_log_simple",
        idle("nothing to say: `console.log` is in the run's folder"),
    ),
    ("save_every_n_steps", a.SAVE),
    (
        "save_every_n_epochs save_n_epoch_ratio",
        none("saved by steps: `lightning.callbacks.periodic_checkpoint.params.every_n_train_steps=1000`", "1"),
    ),
    (
        "save_last_n_steps save_last_n_epochs save_last_n_steps_state save_last_n_epochs_state",
        none("how many are kept: `lightning.callbacks.periodic_checkpoint.params.save_top_k=3`", "2000"),
    ),
    ("save_state save_state_on_train_end", idle("nothing to say: all that a resume needs is always saved")),
    ("resume", none("`-r -t` goes on with a run of one's own; states of others are not read", "state")),
    ("skip_until_initial_step initial_step initial_epoch", none("a resumed run knows its place in the data", "100")),
    ("save_precision", a.EXPORT),
    (
        "save_model_as use_safetensors",
        Counterpart(
            base=("export",),
            example="safetensors",
            choices={"diffusers": Counterpart((f"{CALLBACKS}.export.params.to=diffusers",), ("export",))},
            say="while it trains; afterwards `python -m lun.convert`",
        ),
    ),
    (
        "no_metadata metadata_title metadata_author metadata_description metadata_license metadata_tags"
        " training_comment",
        none("exported files say what made them, and no title", "x"),
    ),
    ("sample_every_n_steps", a.SAMPLE),
    ("sample_every_n_epochs", none("by steps: `lightning.callbacks.image_logger.params.batch_frequency=500`", "1")),
    ("sample_at_first", idle("nothing to say: pictures are drawn before the first step")),
    (
        "sample_prompts",
        replace(
            setting(f"{CALLBACKS}.image_logger.params.prompts", "prompts.txt"),
            say="its file as it is, with lines such as `A PROMPT --ss euler`",
        ),
    ),
    ("sample_sampler", elsewhere("of each prompt: `A PROMPT --ss euler`", "ddim")),
    (
        "validate_every_n_steps validate_every_n_epochs max_validation_steps",
        none("`lightning.trainer.val_check_interval` and `limit_val_batches`", "100"),
    ),
    (
        "huggingface_repo_id huggingface_repo_type huggingface_path_in_repo huggingface_token"
        " huggingface_repo_visibility"
        " save_state_to_huggingface resume_from_huggingface async_upload",
        a.HUB,
    ),
)

KOHYA = ProgramTable(
    "kohya's sd-scripts",
    "`sdxl_train.py`, `sd3_train.py` and their kin are the models: `--base sdxl`, `--base sd3-medium`,\n"
    "`--base sd35-medium`, `--base sd35-large`; what `train_textual_inversion.py` teaches is\n"
    "written as [embeddings](embeddings.md). Not there: ControlNet, Flux, XTI.\n"
    "What a command leaves out has kohya's value in the file that is written, where another is usual here: no average\n"
    "of weights, no dropped captions, 1600 steps, a rate of 2e-6.",
    {**_MODEL, **DATA_ROWS, **_SD3, **_STEPS, **_OBJECTIVE, **_MACHINE, **_NETWORK, **_OUTPUT},
    keys=("image_dir", "is_reg", "metadata_file", "num_repeats", "class_tokens", "batch_size"),
)
