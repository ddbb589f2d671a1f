"""ai-toolkit: the settings of a job's first process, names of nested ones joined by dots."""

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
    rows,
    setting,
)

_HERE = "nothing to say: it is so"

_MODEL = rows(
    ("model.name_or_path", a.FROM),
    (
        "model.arch model.is_v2 model.is_v3 model.is_xl",
        elsewhere("the first word after --base: `python main.py --list-presets`", "sdxl"),
    ),
    ("model.is_v_pred", a.V),
    ("model.vae_path", a.VAE),
    ("model.unet_path model.refiner_name_or_path", none("weights come from one place: --init-from", "x")),
    (
        "model.lora_path model.assistant_lora_path",
        none("`python -m lun.convert` merges it into the base", "x.safetensors"),
    ),
    ("model.quantize", noted(Counterpart(base=("int8",)), "the base below adapters, int8 in the place of float8")),
    ("model.qtype model.qtype_te model.quantize_te model.quantize_kwargs", none("`int8` or `nf4`", "qfloat8")),
    ("model.low_vram", noted(Counterpart(base=("offload-frozen",)), "frozen parts lie in main memory")),
    ("model.layer_offloading", Counterpart(base=("block-swap",))),
    (
        "model.layer_offloading_transformer_percent model.layer_offloading_text_encoder_percent",
        elsewhere(f"`--base sd15 block-swap {CALLBACKS}.block_swap.params.blocks=8`", "0.5"),
    ),
    (
        "model.dtype model.vae_dtype model.te_dtype model.vae_device model.te_device",
        idle("nothing to say: frozen parts take the run's precision, on the accelerator"),
    ),
    ("model.use_text_encoder_1 model.use_text_encoder_2", idle("nothing to say: as the model was trained")),
    ("model.attn_masking model.model_kwargs", none("of other models than Stable Diffusion")),
)

_STEPS = rows(
    ("train.batch_size", a.BATCH),
    ("train.steps", a.STEPS),
    ("train.gradient_accumulation_steps train.gradient_accumulation", a.ACCUMULATE),
    ("train.lr train.unet_lr", a.RATE),
    (
        "train.text_encoder_lr",
        changed(a.TEXT_RATE, "a share of the learning rate, one for all encoders"),
    ),
    ("train.embedding_lr train.adapter_lr train.refiner_lr", elsewhere("`lr` of a rule: docs/optimizers.md", "1e-4")),
    ("train.train_text_encoder", a.TEXT_ENCODER),
    (
        "train.train_unet",
        Counterpart(say="`train: false` in rules over names: docs/optimizers.md", choices={"true": idle(_HERE)}),
    ),
    ("train.optimizer", a.OPTIMIZER),
    ("train.optimizer_params", elsewhere("`model.params.optimizer_config.params.NAME=VALUE`", "x")),
    ("train.lr_scheduler", a.SCHEDULE),
    ("train.lr_scheduler_params", elsewhere("`model.params.scheduler_config.params.NAME=VALUE`", "x")),
    ("train.max_grad_norm", a.CLIP),
    ("train.gradient_checkpointing", a.CHECKPOINTING),
    ("train.dtype", a.PRECISION),
    ("train.xformers train.sdp train.attention_backend", a.ATTENTION),
    ("train.ema_config.use_ema", a.AVERAGE),
    ("train.ema_config.ema_decay", setting("model.params.ema_decay", "0.99")),
    (
        "train.unload_text_encoder",
        idle("nothing to say: texts are kept by a cache"),
    ),
    ("train.cache_text_embeddings", a.CACHE),
    ("train.merge_network_on_save", none("`python -m lun.convert RUN FILE --merge` does it afterwards")),
    ("train.start_step", none("a resumed run knows its step", "100")),
    (
        "train.do_paramiter_swapping train.paramiter_swapping_factor train.weight_jitter train.single_item_batching"
        " train.switch_boundary_every train.free_u train.target_norm_std train.force_consistent_noise",
        none("no such trick is known", "0.1"),
    ),
)

_OBJECTIVE = rows(
    (
        "train.noise_scheduler",
        idle("nothing to say: noise is added along the model's own path"),
    ),
    (
        "train.timestep_type",
        Counterpart(
            example="sigmoid",
            kind="none",
            say="`LogitNormal`, `Mode`, `Shifted` and others are there",
            choices={
                "linear": idle("nothing to say: all timesteps alike"),
                "sigmoid": objective("timesteps: {target: ldm.diffusion.timesteps.LogitNormal}"),
            },
        ),
    ),
    (
        "train.content_or_style",
        Counterpart(
            example="style",
            kind="none",
            say="a law of timesteps: `Range`, `Mode`",
            choices={"balanced": idle("nothing to say: all timesteps alike")},
        ),
    ),
    (
        "train.min_denoising_steps train.max_denoising_steps train.linear_timesteps train.linear_timesteps2"
        " train.timestep_bias",
        none("a law of timesteps: `Range`, `LogitNormal`, `Mode`", "100"),
    ),
    ("train.min_snr_gamma train.snr_gamma", a.SNR),
    ("train.noise_offset", a.OFFSET),
    (
        "train.loss_type",
        Counterpart(
            example="mae",
            kind="none",
            say="`Squared`, `Absolute` and `Huber` are there",
            choices={
                "mse": idle("nothing to say: the square of the error"),
                "mae": Counterpart(("model.params.loss_type=l1",)),
            },
        ),
    ),
    (
        "train.loss_target train.inverted_mask_prior train.inverted_mask_prior_multiplier train.noise_multiplier"
        " train.img_multiplier train.latent_multiplier train.random_noise_shift train.random_noise_multiplier",
        none("no such loss or noise is known", "x"),
    ),
    (
        "train.diff_output_preservation train.diff_output_preservation_multiplier"
        " train.diff_output_preservation_class train.blank_prompt_preservation",
        elsewhere("a set of `kind: prior`: docs/datasets.md", "person"),
    ),
    ("train.prompt_dropout_prob", a.UNCONDITIONAL),
    (
        "train.cfg_scale train.do_cfg train.do_guidance_loss train.short_and_long_captions",
        none("no such guidance trains", "x"),
    ),
)

_NETWORK = rows(
    ("network.type", elsewhere("`lora`, `lokr` and other kinds: docs/adapters.md", "lora")),
    ("network.linear network.rank", a.RANK),
    ("network.linear_alpha network.alpha", a.ALPHA),
    ("network.dropout", a.DROPOUT),
    (
        "network.conv network.conv_alpha",
        noted(Counterpart(base=("locon",)), "rank and alpha of convolutions in its rule"),
    ),
    (
        "network.lokr_factor network.lokr_full_rank network.network_kwargs network.transformer_only network.normalize",
        elsewhere("`match` and params of a rule: docs/adapters.md", "x"),
    ),
    ("embedding.trigger embedding.tokens embedding.init_words", elsewhere("`--base sd15 ti`: docs/embeddings.md", "x")),
)

_OUTPUT = rows(
    ("config.name", a.NAME),
    ("training_folder sqlite_db_path performance_log_every", a.LOGS),
    ("device", idle("nothing to say: the accelerator is found")),
    ("trigger_word", elsewhere("`'data.params.train.params.captions={trigger: p3r5on}'`", "p3r5on")),
    ("datasets", elsewhere("sets: docs/datasets.md", "x")),
    ("save.save_every", a.SAVE),
    ("save.max_step_saves_to_keep", a.KEEP),
    (
        "save.dtype save.save_format",
        elsewhere("of a file made afterwards: `python -m lun.convert RUN FILE --dtype fp16`", "float16"),
    ),
    ("save.push_to_hub save.hf_repo_id save.hf_private", a.HUB),
    (
        "logging.log_every logging.verbose logging.use_wandb logging.use_ui_logger"
        " logging.project_name logging.run_name",
        a.ALWAYS,
    ),
    ("sample.sample_every", a.SAMPLE),
    ("sample.prompts sample.samples", a.PROMPT),
    (
        "sample.neg sample.width sample.height sample.seed sample.walk_seed sample.guidance_scale sample.sample_steps"
        " sample.sampler sample.guidance_rescale sample.network_multiplier",
        elsewhere("of each prompt: `A PROMPT --n blurry --w 512 --h 768 --d 7 --l 7 --s 30 --ss euler`", "4"),
    ),
    (
        "sample.sample_start_step sample.format sample.num_frames sample.fps",
        idle("nothing to say: PNG, from step 0 on"),
    ),
    (
        "train.skip_first_sample train.force_first_sample train.disable_sampling",
        none("pictures are drawn from step 0 on; null in the place of `image_logger` draws none"),
    ),
    ("type", idle(_HERE)),
)

AI_TOOLKIT = ProgramTable(
    "ai-toolkit",
    "Keys of the first process of a job, inner ones behind a dot. Not there: sliders, other models.",
    {**_MODEL, **_STEPS, **_OBJECTIVE, **_NETWORK, **_OUTPUT},
    options=False,
)
