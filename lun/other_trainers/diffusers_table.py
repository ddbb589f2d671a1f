"""diffusers' example scripts: train_text_to_image, _lora, _sdxl, train_dreambooth, _lora."""

from lun.other_trainers import answers as a
from lun.other_trainers.counterparts import (
    TRAIN,
    Counterpart,
    ProgramTable,
    elsewhere,
    idle,
    none,
    noted,
    objective,
    rows,
    setting,
)

_SETS = "docs/datasets.md"

_MODEL = rows(
    ("pretrained_model_name_or_path", a.FROM),
    ("revision", elsewhere("of a hub id: `--init-from ID@REVISION`", "fp16")),
    ("variant", idle("nothing to say: the weights that are there are found")),
    (
        "non_ema_revision tokenizer_name",
        none("weights come from one place; the vocabulary comes with the program", "x"),
    ),
    ("pretrained_vae_model_name_or_path", a.VAE),
    ("prediction_type", a.PREDICTION),
    ("tokenizer_max_length", setting("model.params.cond_stage_config.params.max_length", "77")),
    ("text_encoder_use_attention_mask", none("texts are padded, as the models were trained", "")),
)

_DATA = rows(
    ("train_data_dir instance_data_dir", a.DATA),
    (
        "dataset_name dataset_config_name",
        none(
            "a folder of pictures on this machine: `--data_root DIR`; a set of the hub is downloaded once before",
            "me/set",
        ),
    ),
    ("cache_dir", elsewhere("the environment's `LUN_CACHE`", "cache")),
    ("image_column caption_column", a.FOUND),
    ("instance_prompt", setting(f"{TRAIN}.default_caption", "a photo of sks dog")),
    ("class_data_dir class_prompt with_prior_preservation", elsewhere(f"a set of `kind: class`: {_SETS}", "class")),
    ("prior_loss_weight", elsewhere(f"`loss_weight` of a set of `kind: class`: {_SETS}", "1.0")),
    (
        "num_class_images sample_batch_size prior_generation_precision",
        elsewhere("pictures of a class are drawn before: `python -m lun.sample`, lun/sample/README.md", "200"),
    ),
    ("repeats", elsewhere(f"`repeats` of a set: {_SETS}", "2")),
    ("max_train_samples", setting(f"{TRAIN}.limit_images", "1000")),
    ("resolution", a.SIZE),
    (
        "center_crop",
        idle(
            "nothing to say: the centre is what is cut; cut at a drawn place, as there without it, by"
            " `data.params.train.params.crop=random`"
        ),
    ),
    ("random_flip", a.FLIP),
    ("image_interpolation_mode", a.INTERPOLATION),
    ("proportion_empty_prompts", a.UNCONDITIONAL),
    ("dataloader_num_workers", a.WORKERS),
    ("pre_compute_text_embeddings", noted(a.CACHE, "texts are kept as well, where their encoder does not train")),
    ("class_labels_conditioning validation_images", none("of other models than Stable Diffusion", "timesteps")),
)

_STEPS = rows(
    ("train_batch_size", a.BATCH),
    ("gradient_accumulation_steps", a.ACCUMULATE),
    ("max_train_steps", a.STEPS),
    ("num_train_epochs", a.EPOCHS),
    ("learning_rate", a.RATE),
    ("text_encoder_lr", a.TEXT_RATE),
    ("train_text_encoder", a.TEXT_ENCODER),
    ("scale_lr", Counterpart(("--scale_lr", "linear"))),
    ("lr_scheduler", a.SCHEDULE),
    ("lr_warmup_steps", a.WARM_UP),
    (
        "lr_num_cycles",
        a.RESTARTS,
    ),
    ("lr_power", none("`polynomial` falls along a line", "2")),
    ("optimizer", a.OPTIMIZER),
    ("use_8bit_adam", a.EIGHT_BITS),
    (
        "adam_beta1 adam_beta2 prodigy_beta3",
        elsewhere("`'model.params.optimizer_config.params={betas: [0.9, 0.99]}'`", "0.9"),
    ),
    ("adam_weight_decay", a.DECAY),
    (
        "adam_weight_decay_text_encoder",
        none("one for all that trains, or rules over names: docs/optimizers.md", "0.001"),
    ),
    ("adam_epsilon", setting("model.params.optimizer_config.params.eps", "1e-08")),
    (
        "prodigy_decouple prodigy_use_bias_correction prodigy_safeguard_warmup",
        elsewhere("`--base sd15 prodigy` has them", "True"),
    ),
    ("max_grad_norm", a.CLIP),
    ("seed", a.SEED),
    ("set_grads_to_none", idle("nothing to say: it is so")),
)

_OBJECTIVE = rows(
    ("snr_gamma", a.SNR),
    ("noise_offset", a.OFFSET),
    (
        "offset_noise",
        Counterpart(a.OFFSET.words[:0] + ("model.params.objective.params.noise.params.strength=0.1",), a.OFFSET.base),
    ),
    ("do_edm_style_training", noted(Counterpart(base=("edm",)), "of a base that was trained so")),
    ("input_perturbation dream_training dream_detail_preservation", none("such noise is not known", "0.1")),
    (
        "timestep_bias_strategy timestep_bias_multiplier timestep_bias_begin timestep_bias_end timestep_bias_portion",
        none(
            "a law of timesteps: `"
            + objective("timesteps: {target: ldm.diffusion.timesteps.Range, params: {low: 200, high: 800}}")
            .words[0]
            .join("''")
            + "`",
            "later",
        ),
    ),
    ("debug_loss", idle("nothing to say: the loss of each noise level is in the run's page")),
)

_SD3 = rows(
    ("cache_latents", a.CACHE),
    (
        "weighting_scheme logit_mean logit_std mode_scale",
        none("`model.params.objective.params.timesteps`: `LogitNormal`, `Mode`, `Shifted`", "logit_normal"),
    ),
    ("precondition_outputs", none("the velocity is what is learned")),
    ("max_sequence_length", elsewhere(a.T5_LENGTH, "77")),
    ("lora_layers lora_blocks", elsewhere("rules over the names of layers: docs/adapters.md", "attn.to_q")),
    ("upcast_before_saving", idle("nothing to say: `export` says in which numbers")),
)

_MACHINE = rows(
    ("num_processes num_gpus gpu_ids", Counterpart(("--devices", "{}"), example="1")),
    ("mixed_precision", a.PRECISION),
    ("gradient_checkpointing", a.CHECKPOINTING),
    ("enable_xformers_memory_efficient_attention enable_npu_flash_attention", a.ATTENTION),
    ("allow_tf32", a.TF32),
    ("local_rank", idle("nothing to say: the launcher is heard")),
    ("use_ema", a.AVERAGE),
    ("offload_ema", a.IN_MAIN_MEMORY),
    ("foreach_ema", a.IN_ONE_PASS),
)

_OUTPUT = rows(
    ("rank", a.RANK),
    ("lora_dropout", a.DROPOUT),
    ("use_dora", Counterpart(base=("dora",))),
    ("output_kohya_format", idle("nothing to say: a LoRA is written so; `to: diffusers` for the other")),
    ("output_dir", a.LOGS),
    ("logging_dir report_to tracker_project_name", a.ALWAYS),
    ("checkpointing_steps", a.SAVE),
    ("checkpoints_total_limit", a.KEEP),
    (
        "resume_from_checkpoint",
        none("`-r -t` goes on with a run of one's own; states of others are not read", "latest"),
    ),
    ("validation_prompt validation_prompts", a.PROMPT),
    ("num_validation_images", setting("lightning.callbacks.image_logger.params.max_images", "4")),
    ("validation_epochs", none("by steps: `lightning.callbacks.image_logger.params.batch_frequency=500`", "5")),
    ("validation_steps", a.SAMPLE),
    ("validation_scheduler", elsewhere("of each prompt: `A PROMPT --ss euler`", "DDPMScheduler")),
    ("skip_save_text_encoder", idle("nothing to say: what did not train is not written twice")),
    ("push_to_hub", none("nothing is uploaded while it trains")),
    ("hub_token hub_model_id", a.HUB),
)

DIFFUSERS = ProgramTable(
    "diffusers' example scripts",
    "`train_text_to_image.py`, `train_dreambooth.py`, with `_lora`, `_sdxl` and both. `accelerate launch` has no part\n"
    "in it: `--devices 2`. A folder that `from_pretrained` reads is written by `python -m lun.convert`.",
    {**_MODEL, **_DATA, **_STEPS, **_OBJECTIVE, **_SD3, **_MACHINE, **_OUTPUT},
)
