"""All tables, and what a name means that is met without a program."""

from lun.other_trainers import answers as a
from lun.other_trainers.ai_toolkit_table import AI_TOOLKIT
from lun.other_trainers.counterparts import Counterpart, ProgramTable, by_name, elsewhere, rows, setting
from lun.other_trainers.diffusers_table import DIFFUSERS
from lun.other_trainers.kohya_table import KOHYA
from lun.other_trainers.onetrainer_table import ONETRAINER
from lun.other_trainers.simpletuner_table import SIMPLETUNER

MANNERS = ProgramTable(
    "Names that many programs and lists of hyperparameters have",
    "",
    rows(
        ("lr learning_rate_unet base_lr", a.RATE),
        ("per_device_train_batch_size bs", a.BATCH),
        ("grad_accum accumulate_grad", a.ACCUMULATE),
        ("train_steps steps num_steps max_iterations", a.STEPS),
        ("epochs num_epochs", a.EPOCHS),
        ("pretrained_model base_model_name base_model model_path ckpt", a.FROM),
        ("dataset_dir dataset data_dir", a.DATA),
        ("out_dir workspace_dir", a.LOGS),
        ("run_name tracker_run_name model_name", a.NAME),
        ("image_size size", a.SIZE),
        ("num_workers workers", a.WORKERS),
        ("clip_grad_norm grad_clip", a.CLIP),
        ("train_dtype", a.PRECISION),
        ("bf16", Counterpart(base=("bf16",))),
        ("fp16", Counterpart(base=("fp16",))),
        ("weight_decay", a.DECAY),
        ("rescale_betas_zero_snr", a.TERMINAL),
        ("ema_decay", setting("model.params.ema_decay", "0.999")),
        ("ema_update_interval", setting("model.params.ema_config.params.update_every", "10")),
        ("ema_device", setting("model.params.ema_config.params.device", "cpu")),
        ("ema_cpu_only", a.IN_MAIN_MEMORY),
        ("ema_foreach ema_foreach_disable disable_foreach_ema", a.IN_ONE_PASS),
        (
            "max_shard_size",
            elsewhere("of an export: python -m lun.convert RUN DIR --to diffusers --max-shard-size 2GB"),
        ),
        ("caption_dropout_probability", a.UNCONDITIONAL),
        ("vae_cache_dir", a.CACHE),
        ("save_steps", a.SAVE),
        ("attention", a.ATTENTION),
        ("use_lora", a.ADAPTER),
        ("lora_rank", a.RANK),
        ("lora_alpha", a.ALPHA),
    ),
)
"""Shown on no page: what people type by habit."""

TABLES = (KOHYA, DIFFUSERS, ONETRAINER, SIMPLETUNER, AI_TOOLKIT)
"""The programs that have a page and a reader."""

OTHERS = by_name((*TABLES, MANNERS))


def here(name: str) -> Counterpart | None:
    """What stands for the option `name` of another trainer, with or without dashes."""
    return OTHERS.get(name.lstrip("-").replace("-", "_").lower())
