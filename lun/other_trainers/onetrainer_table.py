"""OneTrainer: the settings of its presets and configurations, names of nested ones joined by dots."""

from lun.other_trainers import answers as a
from lun.other_trainers.counterparts import (
    CALLBACKS,
    TRAIN,
    Counterpart,
    ProgramTable,
    changed,
    elsewhere,
    flag,
    idle,
    none,
    noted,
    objective,
    rows,
    setting,
)
from lun.other_trainers.onetrainer_network_table import NETWORK_ROWS

_RULES = "rules over names: docs/optimizers.md"
_DTYPES = {
    "float_32": Counterpart(("--precision", "32-true")),
    "tfloat_32": noted(Counterpart(("--precision", "32-true")), "torch's own setting says whether TF32 is used"),
    "float_16": Counterpart(base=("fp16",)),
    "bfloat_16": Counterpart(base=("bf16",)),
}
_WEIGHTINGS = {
    "constant": idle("nothing to say: every noise level counts alike"),
    "p2": objective("weighting: {target: ldm.diffusion.weighting.P2}"),
    "min_snr_gamma": Counterpart(base=("min-snr",)),
    "debiased_estimation": a.DEBIASED,
    "sigma": none("`model.params.objective.params.weighting` names any function of the noise level"),
}
_LAWS = {
    "uniform": idle("nothing to say: all timesteps alike"),
    "logit_normal": objective("timesteps: {target: ldm.diffusion.timesteps.LogitNormal}"),
    "cos_map": objective("timesteps: {target: ldm.diffusion.timesteps.CosMap}"),
}

_MODEL = rows(
    ("base_model_name", a.FROM),
    ("training_method", elsewhere("FINE_TUNE: what is trained without more words; LORA: `--base sd15 lora`", "LORA")),
    ("model_type", elsewhere("the first word after --base: `python main.py --list-presets`", "STABLE_DIFFUSION_15")),
    ("vae.model_name", a.VAE),
    ("unet.model_name prior.model_name transformer.model_name", none("weights come from one place: --init-from", "x")),
    (
        "text_encoder_layer_skip",
        Counterpart(
            ("model.params.cond_stage_config.params.layer=penultimate",),
            example="1",
            choices={"0": idle("nothing to say: the last layer")},
        ),
    ),
    (
        "text_encoder_2_layer_skip text_encoder_3_layer_skip text_encoder_4_layer_skip",
        none("further encoders are read at the layer that the model was trained with", "1"),
    ),
    (
        "text_encoder_sequence_length text_encoder_2_sequence_length",
        idle("nothing to say: 77 tokens, as the model was trained"),
    ),
    ("output_dtype", elsewhere("of a file made afterwards: `python -m lun.convert RUN FILE --dtype fp16`", "FLOAT_16")),
    (
        "output_model_format output_model_destination",
        elsewhere("a file is made afterwards: `python -m lun.convert RUN FILE --to ldm`", "models/mine.safetensors"),
    ),
    ("force_circular_padding", none("pictures do not wrap around", "True")),
)

_DATA = rows(
    (
        "concept_file_name concepts",
        elsewhere("`python -m lun.migrate FILE` reads it: docs/datasets.md", "concepts.json"),
    ),
    ("aspect_ratio_bucketing", a.BUCKETS),
    ("image_caching text_caching latent_caching", a.CACHE),
    ("clear_cache_before_training", idle("nothing to say: what is kept is known by what it was made of")),
    ("caching_threads dataloader_threads", a.WORKERS),
    ("prefetch_next_batch frames", idle("nothing to say: batches are made ahead")),
    ("only_cache", elsewhere("`python -m lun.data.cache --base YAML` fills the caches alone")),
    ("resolution", a.SIZE),
    (
        "masked_training",
        changed(
            Counterpart((f"{TRAIN}.mask=folder",)),
            "masks NAME-masklabel.png become `mask/NAME.png` beside the pictures; outside of them nothing is learned",
        ),
    ),
    (
        "normalize_masked_area_loss",
        idle("nothing to say: the mean is over what a mask shows, whatever its size"),
    ),
    (
        "unmasked_probability unmasked_weight",
        none("a mask holds for every pass, and outside of it nothing counts", "0.1"),
    ),
    ("masked_prior_preservation_weight", elsewhere("a set of `kind: prior`: docs/datasets.md", "0.1")),
    ("custom_conditioning_image", none("of other models than Stable Diffusion")),
    ("validation", elsewhere("`data.params.validation`: lun/README.md")),
    ("validate_after validate_after_unit", elsewhere("`lightning.trainer.val_check_interval=500`", "1")),
)

_STEPS = rows(
    ("learning_rate unet.learning_rate transformer.learning_rate", a.RATE),
    (
        "text_encoder.learning_rate text_encoder_2.learning_rate text_encoder_3.learning_rate",
        changed(a.TEXT_RATE, "a share of the learning rate, one for all encoders"),
    ),
    ("text_encoder.train text_encoder_2.train text_encoder_3.train", a.TEXT_ENCODER),
    ("unet.train transformer.train", elsewhere(f"`train: false` in {_RULES}", "False")),
    (
        "unet.stop_training_after unet.stop_training_after_unit text_encoder.stop_training_after"
        " text_encoder.stop_training_after_unit text_encoder_2.stop_training_after"
        " text_encoder_2.stop_training_after_unit text_encoder_3.stop_training_after"
        " text_encoder_3.stop_training_after_unit transformer.stop_training_after"
        " transformer.stop_training_after_unit",
        elsewhere(f"`until`, a step or a share of the run, in {_RULES}", "30"),
    ),
    (
        "text_encoder.dropout_probability text_encoder_2.dropout_probability text_encoder_3.dropout_probability",
        changed(a.UNCONDITIONAL, "all encoders of a picture hear nothing together"),
    ),
    (
        "learning_rate_scheduler",
        Counterpart(
            a.SCHEDULE.words,
            reads=lambda text: a.SCHEDULES.get(text.lower().replace("hard_", ""), text),
            example="COSINE",
        ),
    ),
    (
        "custom_learning_rate_scheduler scheduler_params",
        none("`model.params.scheduler_config.target` names any `step -> factor`, with its own params", "x"),
    ),
    ("learning_rate_warmup_steps", a.WARM_UP),
    ("learning_rate_cycles", a.RESTARTS),
    ("learning_rate_min_factor", setting("model.params.scheduler_config.params.minimum", "0.1")),
    (
        "learning_rate_scaler",
        changed(flag("--scale_lr", "sqrt", lambda text: "sqrt"), "by the root of a step's pictures"),
    ),
    ("epochs", a.EPOCHS),
    ("batch_size", a.BATCH),
    ("gradient_accumulation_steps", a.ACCUMULATE),
    ("clip_grad_norm", a.CLIP),
    ("optimizer.optimizer", Counterpart(a.OPTIMIZER.words, reads=lambda text: optimizer(text), example="ADAMW")),
    ("optimizer.fused_back_pass", a.FUSED),
    ("optimizer.weight_decay", a.DECAY),
    ("optimizer.eps", setting("model.params.optimizer_config.params.eps", "1e-08")),
    (
        "optimizer.beta1 optimizer.beta2",
        elsewhere("`'model.params.optimizer_config.params={betas: [0.9, 0.99]}'`", "0.9"),
    ),
    ("optimizer_defaults loss_scaler", idle("nothing to say: its form's memory, and the loss is a mean")),
    ("ema", Counterpart(("model.params.use_ema=true",), choices={"off": Counterpart(("model.params.use_ema=false",))})),
    ("ema_decay", changed(setting("model.params.ema_config.params.decay", "0.999"), "of a step, not of an update")),
    ("ema_update_step_interval", setting("model.params.ema_config.params.update_every", "5")),
)

_OBJECTIVE = rows(
    ("mse_strength vb_loss_strength", idle("nothing to say: the square of the error")),
    ("mae_strength", Counterpart(("model.params.loss_type=l1",), example="1.0")),
    ("huber_strength", changed(objective("loss: {target: ldm.diffusion.loss.Huber}"), "alone, beside no other loss")),
    ("huber_delta", objective("loss: {target: ldm.diffusion.loss.Huber, params: {delta: {}}}", "0.1")),
    ("log_cosh_strength", none("Huber's loss is a near one: lun/README.md", "1.0")),
    ("loss_weight_fn", Counterpart(choices=_WEIGHTINGS, example="MIN_SNR_GAMMA", kind="none", say="it is not known")),
    ("loss_weight_strength", a.SNR),
    ("offset_noise_weight", a.OFFSET),
    ("generalized_offset_noise perturbation_noise_weight", none("such noise is not known", "0.1")),
    ("rescale_noise_scheduler_to_zero_terminal_snr", a.TERMINAL),
    ("force_v_prediction", a.V),
    ("force_epsilon_prediction", Counterpart(("model.params.parameterization=eps",))),
    (
        "timestep_distribution",
        Counterpart(
            choices=_LAWS,
            example="LOGIT_NORMAL",
            kind="none",
            say="`LogitNormal`, `Mode` and others are there",
        ),
    ),
    (
        "min_noising_strength",
        objective("timesteps: {target: ldm.diffusion.timesteps.Range, params: {low: 200, high: 1000}}"),
    ),
    (
        "max_noising_strength",
        objective("timesteps: {target: ldm.diffusion.timesteps.Range, params: {low: 0, high: 800}}"),
    ),
    ("noising_weight noising_bias", none("`std` and `mean` of `LogitNormal` are such numbers", "0.5")),
    ("timestep_shift", objective("timesteps: {target: ldm.diffusion.timesteps.Shifted, params: {factor: {}}}", "3.0")),
    ("dynamic_timestep_shifting cep_gamma", none("of other models than Stable Diffusion", "0.5")),
)

_MACHINE = rows(
    ("train_dtype", Counterpart(choices=_DTYPES, example="BFLOAT_16", kind="none", say="there is no such precision")),
    ("fallback_train_dtype enable_autocast_cache", idle("nothing to say: parts that need fp32 compute in it")),
    (
        "unet.weight_dtype transformer.weight_dtype",
        Counterpart(
            example="BFLOAT_16",
            kind="none",
            say="weights that train are fp32, or bfloat16 by `--base sd15 bf16-true`; below adapters `int8` or `nf4`",
            choices={
                **dict.fromkeys(("float_32", "float_16", "none"), idle("nothing to say: weights that train are fp32")),
                "bfloat_16": a.HALF,
                "nfloat_4": noted(Counterpart(base=("nf4",)), "the base below adapters"),
                **dict.fromkeys(("int_8", "w8a8int"), noted(Counterpart(base=("int8",)), "the base below adapters")),
            },
        ),
    ),
    (
        "vae.weight_dtype text_encoder.weight_dtype text_encoder_2.weight_dtype text_encoder_3.weight_dtype"
        " lora_weight_dtype embedding_weight_dtype",
        idle("nothing to say: frozen parts take the run's precision, what trains fp32"),
    ),
    (
        "gradient_checkpointing unet.gradient_checkpointing transformer.gradient_checkpointing"
        " text_encoder.gradient_checkpointing"
        " text_encoder_2.gradient_checkpointing text_encoder_3.gradient_checkpointing vae.gradient_checkpointing",
        a.CHECKPOINTING,
    ),
    (
        "unet.offload_fraction transformer.offload_fraction layer_offload_fraction",
        noted(Counterpart(base=("block-swap",)), "how many blocks: `lightning.callbacks.block_swap.params.blocks`"),
    ),
    (
        "unet.activation_offloading transformer.activation_offloading text_encoder.activation_offloading"
        " text_encoder_2.activation_offloading text_encoder_3.activation_offloading vae.activation_offloading"
        " text_encoder.offload_fraction text_encoder_2.offload_fraction text_encoder_3.offload_fraction"
        " vae.offload_fraction enable_activation_offloading",
        none("activations are computed again, not moved; frozen parts lie in main memory by `offload-frozen`", "0.5"),
    ),
    (
        "async_offloading enable_async_offloading temp_device",
        idle("nothing to say: it is moved beside training"),
    ),
    ("compile", a.COMPILE),
    ("attention_mechanism", a.ATTENTION),
    ("multi_gpu", Counterpart(base=("ddp",))),
    ("device_indexes", Counterpart(("--devices", "{}"), example="0,1")),
    (
        "gradient_reduce_precision fused_gradient_reduce async_gradient_reduce async_gradient_reduce_buffer",
        idle("nothing to say: gradients are averaged in fp32 beside the backward pass"),
    ),
)

_OUTPUT = rows(
    ("workspace_dir", a.LOGS),
    ("cache_dir", elsewhere("the environment's `LUN_CACHE`", "cache")),
    ("debug_mode debug_dir", elsewhere("`python -m lun.inspect DIR` shows what training sees")),
    (
        "tensorboard tensorboard_expose tensorboard_always_on tensorboard_port",
        idle("nothing to say: `tensorboard --logdir logs` shows them, and the run's page does without"),
    ),
    ("continue_last_backup", none("`-r RUN -t` goes on with a run of one's own; states of others are not read")),
    (
        "__version prevent_overwrites include_train_config",
        idle("nothing to say: each run has a folder"),
    ),
    ("sample_definition_file_name samples", a.PROMPT),
    ("sample_after sample_after_unit", a.SAMPLE),
    ("sample_skip_first", none("pictures are drawn from step 0 on, and every so many steps", "1")),
    (
        "sample_image_format sample_video_format sample_audio_format samples_to_tensorboard non_ema_sampling",
        idle("nothing to say: PNG, by the raw and by the averaged weights, in the run's folder and TensorBoard"),
    ),
    (
        "backup_after backup_after_unit",
        setting(f"{CALLBACKS}.periodic_checkpoint_overwrite.params.every_minutes", "30"),
    ),
    (
        "rolling_backup rolling_backup_count backup_before_save",
        idle("nothing to say: the file to go on from replaces the one before once it is whole"),
    ),
    ("save_every save_every_unit", a.SAVE),
    ("save_skip_first", none("files are saved from the first time on", "1")),
    ("save_filename_prefix", a.NAME),
    ("cloud", none("the program starts where it is: scripts/skypilot.yaml", "True")),
    ("secrets", idle("nothing to say: tokens are read from the environment, and never written")),
)


def optimizer(name: str) -> str:
    """The class of one of its optimizers."""
    plain = name.lower().replace("_", "").replace("schedulefreeadamw", "adamwschedulefree")
    return a.OPTIMIZERS.get(plain, f"torch.optim.{name}")


ONETRAINER = ProgramTable(
    "OneTrainer",
    "Keys of a preset's or a configuration's JSON, inner ones behind a dot. What a preset leaves out has that program's"
    " value in the file that is written: fp16, a hundred epochs, a text encoder that trains for thirty. Not there:"
    " other models, OFT; a first stage and words have pages of their own.",
    {**_MODEL, **_DATA, **_STEPS, **_OBJECTIVE, **_MACHINE, **NETWORK_ROWS, **_OUTPUT},
    options=False,
)
