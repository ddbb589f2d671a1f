"""SimpleTuner: the settings of its config.json, which are the options of its train.py as well."""

from dataclasses import replace

from lun.other_trainers import answers as a
from lun.other_trainers.counterparts import (
    CALLBACKS,
    TRAIN,
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

_LAWS = "a law of timesteps: `LogitNormal`, `Mode`, `Shifted`, `Range` of ldm.diffusion.timesteps"
_OPTIMIZERS = {
    "adamw_bf16": "torch.optim.AdamW",
    "adamw": "torch.optim.AdamW",
    "optimi-adamw": "torch.optim.AdamW",
    "optimi-adam": "torch.optim.Adam",
    "optimi-lion": "pytorch_optimizer.Lion",
    "optimi-radam": "torch.optim.RAdam",
    "optimi-sgd": "torch.optim.SGD",
    "optimi-stableadamw": "pytorch_optimizer.StableAdamW",
    "soap": "pytorch_optimizer.SOAP",
    "adamw_schedulefree": "schedulefree.AdamWScheduleFree",
    "bnb-adamw": "bitsandbytes.optim.AdamW",
    "bnb-adamw8bit": "bitsandbytes.optim.AdamW8bit",
    "bnb-adamw8bit-paged": "bitsandbytes.optim.PagedAdamW8bit",
    "bnb-adam8bit": "bitsandbytes.optim.Adam8bit",
    "bnb-lion8bit": "bitsandbytes.optim.Lion8bit",
    "bnb-ademamix8bit": "bitsandbytes.optim.AdEMAMix8bit",
    "ao-adamw8bit": "bitsandbytes.optim.AdamW8bit",
    "prodigy": "prodigyopt.Prodigy",
}
"""Their names for classes; AdamW with sums of bfloat16 is AdamW on fp32 weights here."""


_DEVICES = {"accelerator": "cuda"}


def optimizer(name: str) -> str:
    """The class of one of its optimizers; the name itself where it is not known."""
    return _OPTIMIZERS.get(name.lower(), a.OPTIMIZERS.get(name.lower(), name))


_MODEL = rows(
    (
        "pretrained_model_name_or_path pretrained_transformer_model_name_or_path pretrained_unet_model_name_or_path",
        a.FROM,
    ),
    ("model_family model_flavour", elsewhere("the first word after --base: `python main.py --list-presets`", "sdxl")),
    ("model_type", elsewhere("`full`: what is trained without more words; `lora`: `--base sd15 lora`", "lora")),
    (
        "revision variant pretrained_transformer_subfolder pretrained_unet_subfolder",
        idle("nothing to say: the weights that are there are found; a revision is `--init-from ID@REVISION`"),
    ),
    ("pretrained_vae_model_name_or_path", a.VAE),
    (
        "pretrained_t5_model_name_or_path",
        none("text encoders come with the model, or from files: configs/README.md", "x"),
    ),
    ("prediction_type", a.PREDICTION),
    ("tokenizer_max_length", setting("model.params.cond_stage_config.params.max_length", "77")),
    ("controlnet control refiner_training", none("of other models than those of --list-presets")),
)

_DATA = rows(
    (
        "data_backend_config",
        elsewhere("`python -m lun.migrate FILE` reads it: docs/datasets.md", "multidatabackend.json"),
    ),
    ("instance_data_dir", a.DATA),
    ("resolution", a.SIZE),
    (
        "resolution_type aspect_bucket_alignment aspect_bucket_rounding",
        elsewhere("`--base sd15 buckets`, `data.params.buckets.step=64`", "pixel_area"),
    ),
    ("crop crop_style crop_aspect crop_aspect_buckets", elsewhere("`crop` of a set: docs/datasets.md", "center")),
    (
        "minimum_image_size maximum_image_size target_downsample_size",
        elsewhere(f"`{TRAIN}.metadata_params.min_size=256`, in pixels", "0.5"),
    ),
    ("caption_strategy", a.FOUND),
    ("instance_prompt", setting(f"{TRAIN}.default_caption", "a photo of sks dog")),
    ("prepend_instance_prompt only_instance_prompt", elsewhere(f"`'{TRAIN}.captions={{prefix: sks}}'`")),
    ("caption_dropout_probability", a.UNCONDITIONAL),
    ("caption_filter_list", elsewhere("`replacements` and `drop_tags`: lun/README.md", "words.txt")),
    ("data_backend_sampling", elsewhere("`weight` or `repeats` of a set: docs/datasets.md", "uniform")),
    (
        "vae_cache_ondemand vae_cache_disable vae_batch_size vae_enable_tiling vae_enable_slicing vae_dtype"
        " vae_cache_preprocess"
        " vae_cache_scan_behaviour vae_cache_clear_each_epoch keep_vae_loaded text_embed_batch_size write_batch_size"
        " read_batch_size image_processing_batch_size compress_disk_cache preserve_data_backend_cache"
        " override_dataset_config skip_file_discovery cache_clear_validation_prompts cache_file_suffix",
        idle("nothing to say: what is encoded is kept by `--base sd15 latent-cache`, and known by what it was made of"),
    ),
    ("cache_dir cache_dir_text cache_dir_vae", elsewhere("the environment's `LUN_CACHE`", "cache")),
    (
        "dataloader_prefetch dataloader_prefetch_qlen enable_multiprocessing max_workers torch_num_threads",
        elsewhere("`data.params.num_workers=4`, of which each makes batches ahead", "10"),
    ),
    (
        "delete_unwanted_images delete_problematic_images ignore_missing_files print_filenames print_sampler_statistics"
        " metadata_update_interval disable_bucket_pruning allow_dataset_oversubscription ignore_final_epochs",
        idle("nothing to say: nothing of yours is deleted, and what cannot be read is named"),
    ),
)

_STEPS = rows(
    ("train_batch_size", a.BATCH),
    ("gradient_accumulation_steps", a.ACCUMULATE),
    ("max_train_steps", a.STEPS),
    ("num_train_epochs", a.EPOCHS),
    ("learning_rate", a.RATE),
    ("text_encoder_lr", a.TEXT_RATE),
    ("train_text_encoder", a.TEXT_ENCODER),
    ("lr_scale lr_scale_sqrt", changed(Counterpart(("--scale_lr", "linear")), "by the pictures of a step")),
    ("lr_scheduler", a.SCHEDULE),
    ("lr_warmup_steps", a.WARM_UP),
    ("lr_num_cycles", a.RESTARTS),
    (
        "lr_end",
        changed(setting("model.params.scheduler_config.params.minimum", "0.1"), "a share of the rate"),
    ),
    ("lr_power", none("`polynomial` falls along a line", "2")),
    ("optimizer", Counterpart(a.OPTIMIZER.words, reads=optimizer, example="adamw_bf16")),
    (
        "optimizer_config",
        replace(elsewhere("`model.params.optimizer_config.params.NAME=VALUE`", "weight_decay=0.1"), pairs=True),
    ),
    (
        "optimizer_beta1 optimizer_beta2 adam_beta1 adam_beta2",
        elsewhere("`'model.params.optimizer_config.params={betas: [0.9, 0.99]}'`", "0.9"),
    ),
    ("adam_weight_decay", a.DECAY),
    ("adam_epsilon", setting("model.params.optimizer_config.params.eps", "1e-08")),
    ("optimizer_release_gradients", a.FUSED),
    (
        "optimizer_offload_gradients optimizer_torch_compile optimizer_cpu_offload_method",
        none("`fused` is torch's own", "x"),
    ),
    ("max_grad_norm", a.CLIP),
    ("grad_clip_method", none("clipped by the norm of all gradients", "value")),
    ("gradient_precision", idle("nothing to say: gradients of a step add up in fp32")),
    ("set_grads_to_none", idle("nothing to say: it is so")),
    ("seed", a.SEED),
    ("seed_for_each_device", idle("nothing to say: draws are those of a picture's place, on any number of devices")),
)

_OBJECTIVE = rows(
    ("snr_gamma", a.SNR),
    ("use_soft_min_snr", objective("weighting: {target: ldm.diffusion.weighting.SoftMinSNR}")),
    ("soft_min_snr_sigma_data snr_weight", none("`gamma` is what SoftMinSNR takes", "1.0")),
    ("noise_offset", a.OFFSET),
    ("offset_noise", Counterpart(("model.params.objective.params.noise.params.strength=0.1",), a.OFFSET.base)),
    ("noise_offset_probability input_perturbation input_perturbation_steps", none("such noise is not known", "0.25")),
    ("rescale_betas_zero_snr", a.TERMINAL),
    (
        "loss_type",
        Counterpart(
            example="huber",
            kind="none",
            say="`Squared`, `Absolute` and `Huber` are there",
            choices={
                "l2": idle("nothing to say: the square of the error"),
                "huber": changed(
                    objective("loss: {target: ldm.diffusion.loss.Huber, params: {delta: 0.1}}"),
                    "Huber's own, a square that goes on as a line; there a smooth curve",
                ),
            },
        ),
    ),
    ("huber_schedule huber_c", none("Huber's bound is the same at all noise levels", "0.1")),
    ("masked_loss_probability", none("a mask holds for every pass", "1.0")),
    (
        "timestep_bias_strategy timestep_bias_multiplier timestep_bias_begin timestep_bias_end timestep_bias_portion"
        " disable_segmented_timestep_sampling flow_sigmoid_scale flow_use_uniform_schedule flow_use_beta_schedule"
        " flow_beta_schedule_alpha flow_beta_schedule_beta flow_schedule_auto_shift",
        none(_LAWS, "1.0"),
    ),
    (
        "flow_schedule_shift flux_schedule_shift",
        objective("timesteps: {target: ldm.diffusion.timesteps.Shifted, params: {factor: {}}}", "3.0"),
    ),
    (
        "training_scheduler_timestep_spacing inference_scheduler_timestep_spacing",
        none("`spacing` of the path: configs/KEYS.md", "trailing"),
    ),
)

_MACHINE = rows(
    ("mixed_precision", a.PRECISION),
    (
        "base_model_precision",
        Counterpart(
            example="int8-quanto",
            kind="none",
            say="the base below adapters in few bits: `--base sd15 lora int8`, or `nf4`",
            choices={
                **dict.fromkeys(("no_change", "bf16"), idle("nothing to say: frozen parts take the run's precision")),
                **dict.fromkeys(("int8-quanto", "int8-torchao"), Counterpart(base=("int8",))),
                "nf4-bnb": Counterpart(base=("nf4",)),
            },
        ),
    ),
    (
        "base_model_default_dtype quantize_via"
        " text_encoder_1_precision text_encoder_2_precision text_encoder_3_precision",
        idle("nothing to say: frozen parts take the run's precision"),
    ),
    ("gradient_checkpointing", a.CHECKPOINTING),
    ("gradient_checkpointing_interval", none("`activation_memory_budget` of `--base sd15 compile`", "2")),
    (
        "offload_during_startup enable_model_cpu_offload enable_group_offload",
        noted(Counterpart(base=("offload-frozen",)), "frozen parts lie in main memory"),
    ),
    (
        "attention_mechanism sageattention_usage fused_qkv_projections enable_xformers_memory_efficient_attention"
        " use_xformers",
        a.ATTENTION,
    ),
    ("allow_tf32 disable_tf32", a.TF32),
    ("num_processes num_machines", Counterpart(("--devices", "{}"), example="2")),
    ("dynamo_backend training_dynamo_backend", noted(a.COMPILE, "torch's own, inductor")),
    ("local_rank accelerate_extra_args", idle("nothing to say: the launcher is heard")),
    ("use_ema", a.AVERAGE),
    ("ema_decay", setting("model.params.ema_decay", "0.999")),
    ("ema_update_interval", setting("model.params.ema_config.params.update_every", "10")),
    ("ema_device", setting("model.params.ema_config.params.device", "cpu", lambda text: _DEVICES.get(text, text))),
    ("ema_cpu_only", a.IN_MAIN_MEMORY),
    ("ema_foreach_disable", a.IN_ONE_PASS),
    ("ema_validation", idle("nothing to say: raw and averaged weights are both drawn")),
)

_NETWORK = rows(
    ("lora_type lycoris_config", elsewhere("kinds and their params: docs/adapters.md", "lycoris")),
    ("lora_rank", a.RANK),
    ("lora_alpha", a.ALPHA),
    ("lora_dropout", a.DROPOUT),
    ("use_dora", Counterpart(base=("dora",))),
    ("init_lora peft_lora_target_modules flux_lora_target", elsewhere("`match` of a rule: docs/adapters.md", "all")),
    ("lora_initialisation_style lora_init_type", none("`PiSSA` and others: docs/adapters.md", "pissa")),
    ("lora_format", idle("nothing to say: a LoRA is written in kohya's keys; `to: diffusers` for the other")),
    (
        "layer_freeze_strategy freeze_encoder_strategy freeze_unet_strategy",
        elsewhere("rules over names: docs/optimizers.md", "x"),
    ),
)

_OUTPUT = rows(
    ("output_dir", a.LOGS),
    ("tracker_run_name", a.NAME),
    ("logging_dir report_to tracker_project_name tracker_image_layout", a.ALWAYS),
    ("checkpointing_steps checkpoint_step_interval", a.SAVE),
    ("checkpointing_epochs checkpoint_epoch_interval", none("saved by steps, or by minutes", "1")),
    ("checkpoints_total_limit", a.KEEP),
    (
        "checkpointing_rolling_steps checkpoints_rolling_total_limit",
        idle("nothing to say: `every-2k-steps.ckpt` is renewed"),
    ),
    (
        "resume_from_checkpoint",
        none("`-r RUN -t` goes on with a run of one's own; states of others are not read", "latest"),
    ),
    ("validation_prompt validation_prompts", a.PROMPT),
    (
        "validation_prompt_library user_prompt_library",
        elsewhere(f"a file of prompts: `{CALLBACKS}.image_logger.params.prompts`", "x.json"),
    ),
    ("num_validation_images num_eval_images", setting(f"{CALLBACKS}.image_logger.params.max_images", "4")),
    ("validation_steps validation_step_interval", a.SAMPLE),
    (
        "validation_epochs validation_epoch_interval",
        none(f"by steps: `{CALLBACKS}.image_logger.params.batch_frequency=500`", "1"),
    ),
    (
        "validation_negative_prompt validation_resolution validation_seed validation_guidance validation_guidance_real"
        " validation_num_inference_steps validation_noise_scheduler",
        elsewhere("of each prompt: `A PROMPT --n blurry --w 512 --h 768 --d 7 --l 7 --s 30 --ss euler`", "5.0"),
    ),
    (
        "validation_guidance_rescale",
        setting(f"{CALLBACKS}.image_logger.params.log_images_kwargs.guidance_rescale", "0.7"),
    ),
    (
        "validation_disable_unconditional validation_randomize validation_torch_compile validation_on_startup"
        " validation_using_datasets validation_seed_source validation_lycoris_strength validation_preview"
        " disable_benchmark eval_steps_interval evaluation_type",
        none("of a prompt its own settings; a metric: docs/numbers.md", "clip"),
    ),
    ("push_to_hub push_checkpoints_to_hub hub_model_id hub_token model_card_private model_card_note", a.HUB),
    (
        "webhook_config webhook_reporting_interval",
        none("any Lightning callback can be named in `lightning.callbacks`", "x"),
    ),
    ("i_know_what_i_am_doing safety_checker", idle("nothing to say")),
)

SIMPLETUNER = ProgramTable(
    "SimpleTuner",
    "Options of `train.py` and keys of `config.json`. What is left out has that program's value: LoRA of rank 16, bf16,"
    " no average of weights.",
    {**_MODEL, **_DATA, **_STEPS, **_OBJECTIVE, **_MACHINE, **_NETWORK, **_OUTPUT},
)
