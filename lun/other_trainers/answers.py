"""What several programs call alike, or mean alike: optimizers, schedules, precisions, and the rows that they share."""

from __future__ import annotations

import json
import re

from lun.other_trainers.counterparts import (
    CALLBACKS,
    TRAIN,
    Counterpart,
    among,
    captions,
    flag,
    idle,
    objective,
    recipe_at,
    setting,
)

OPTIMIZERS = {
    "adamw": "torch.optim.AdamW",
    "adam": "torch.optim.Adam",
    "adamw8bit": "bitsandbytes.optim.AdamW8bit",
    "pagedadamw8bit": "bitsandbytes.optim.PagedAdamW8bit",
    "adafactor": "ldm.training.matrices.Adafactor",
    "came": "pytorch_optimizer.CAME",
    "lion": "pytorch_optimizer.Lion",
    "lion8bit": "bitsandbytes.optim.Lion8bit",
    "prodigy": "prodigyopt.Prodigy",
    "adamwschedulefree": "schedulefree.AdamWScheduleFree",
    "sgd": "torch.optim.SGD",
    "sgdnesterov": "torch.optim.SGD",
    "radam": "torch.optim.RAdam",
}
SCHEDULES = {
    "constant": "WarmupConstant",
    "constant_with_warmup": "WarmupConstant",
    "cosine": "WarmupCosine",
    "cosine_with_restarts": "WarmupRestarts",
    "rex": "WarmupRex",
    "linear": "WarmupLinear",
    "polynomial": "WarmupLinear",
}
LORA = "model.params.adapter_config.params.rules.attention.kind.params"


def first_number(text: str) -> str:
    """`512` of `512,768`."""
    match = re.search(r"\d+", text)
    return match[0] if match else text


def listed(text: str) -> str:
    """A list of one text, as YAML."""
    return json.dumps([text], ensure_ascii=False)


RATE = setting("model.base_learning_rate", "1e-5")
BATCH = setting("data.params.batch_size", "4")
ACCUMULATE = flag("--accumulate_grad_batches", "2")
STEPS = flag("--max_steps", "2000")
EPOCHS = flag("--max_epochs", "10")
FROM = Counterpart(("--init-from", "{}"), example="sd.safetensors", say="a file, a diffusers folder, a run, a hub id")
DATA = flag("--data_root", "my pictures")
LOGS = flag("--logdir", "runs/first try")
NAME = flag("--name", "pony")
SEED = flag("--seed", "42")
SIZE = setting(f"{TRAIN}.size", "512,512", first_number)
WORKERS = setting("data.params.num_workers", "4")
CLIP = flag("--gradient_clip_val", "1.0")
CACHE = Counterpart(base=("latent-cache",))
SNR = Counterpart(("model.params.objective.params.weighting.params.gamma={}",), base=("min-snr",), example="5.0")
TERMINAL = Counterpart(base=("zero-terminal-snr",), say="for models that predict v, such as sd21-v")
TEXT_ENCODER = Counterpart(base=("train-text-encoder",))
TEXT_RATE = Counterpart(
    ("model.params.cond_stage_lr_multiple={}",), example="0.5", say="a share of the learning rate, one for all encoders"
)
SAVE = setting(f"{CALLBACKS}.periodic_checkpoint.params.every_n_train_steps", "1000")
KEEP = setting(f"{CALLBACKS}.periodic_checkpoint.params.save_top_k", "3")
SAMPLE = setting(f"{CALLBACKS}.image_logger.params.batch_frequency", "500")
PROMPT = setting(f"{CALLBACKS}.image_logger.params.prompts", "a fox, [sitting]", listed)
UNCONDITIONAL = setting("model.params.ucg_rate", "0.1")
INTERPOLATION = Counterpart(
    (f"{TRAIN}.interpolation={{}}",),
    reads=among({"cubic": "bicubic"}),
    example="lanczos",
    choices={
        name: Counterpart(kind="none", say="bicubic, bilinear and lanczos are known")
        for name in ("area", "nearest", "nearest-exact", "box", "hamming")
    },
)
FLIP = Counterpart((f"{TRAIN}.flip_p=0.5",))
RANDOM_CROP = Counterpart((f"{TRAIN}.crop=random",))
SHUFFLE = captions('split_tags: ",", shuffle_tag_p: 1.0')
ATTENTION = idle("nothing to say: torch's fused attention is always used")
ALWAYS = idle("nothing to say: TensorBoard and metrics.jsonl are always written; W&B and others: docs/loggers.md")
FOUND = idle("nothing to say: it is found")
TF32 = idle("nothing to say: `lightning.trainer.precision` says what is computed in which numbers")
HUB = Counterpart(kind="none", say="nothing is uploaded while it trains", example="me/pony")
RANK = Counterpart((f"{LORA}.rank={{}}",), ("lora",), example="8")
ALPHA = Counterpart((f"{LORA}.alpha={{}}",), ("lora",), example="8")
DROPOUT = Counterpart((f"{LORA}.dropout={{}}",), ("lora",), example="0.1")
ADAPTER = Counterpart(base=("lora",), say="of other kinds (LoCon, LoHa, LoKr, DoRA) docs/adapters.md")
T5_LENGTH = "`--base sd3-medium model.params.cond_stage_config.params.t5_length=256`"
VAE = setting("model.params.first_stage_config.params.ckpt_path", "vae.safetensors")
BUCKETS = Counterpart(base=("buckets",))
CHECKPOINTING = idle("nothing to say: it is on; --base no-checkpointing turns it off")
OPTIMIZER = Counterpart(
    ("model.params.optimizer_config.target={}",),
    reads=among(OPTIMIZERS, "torch.optim.{}"),
    example="RAdam",
    say="any class with `f(params, lr=...)`; docs/optimizers.md",
)
DECAY = setting("model.params.optimizer_config.params.weight_decay", "0.01")
EIGHT_BITS = Counterpart(base=("adamw8bit",))
SCHEDULE = Counterpart(
    ("model.params.scheduler_config.target=ldm.lr_scheduler.{}",), reads=among(SCHEDULES), example="cosine"
)
RESTARTS = recipe_at(
    "model.params.scheduler_config", "{target: ldm.lr_scheduler.WarmupRestarts, params: {cycles: {}}}", "4"
)
WARM_UP = setting("model.params.scheduler_config.params.warm_up_steps", "100")
OFFSET = Counterpart(("model.params.objective.params.noise.params.strength={}",), ("offset-noise",), example="0.1")
V = Counterpart(("model.params.parameterization=v",))
PREDICTION = setting(
    "model.params.parameterization", "v_prediction", among({"v_prediction": "v", "epsilon": "eps", "sample": "x0"})
)
PRECISION = Counterpart(
    ("--precision", "{}"),
    example="bf16",
    choices={
        **dict.fromkeys(("no", "fp32", "float32"), Counterpart(("--precision", "32-true"))),
        **dict.fromkeys(("bf16", "bfloat16"), Counterpart(base=("bf16",))),
        **dict.fromkeys(("fp16", "float16"), Counterpart(base=("fp16",))),
    },
)
HALF = Counterpart(base=("bf16-true",))
AVERAGE = Counterpart(("model.params.use_ema=true",))
IN_MAIN_MEMORY = idle("nothing to say: averaged weights lie in main memory, and are copied there beside training")
IN_ONE_PASS = idle("nothing to say: an update reads and writes all averaged weights once")
FUSED = Counterpart(base=("fused-backward",))
COMPILE = Counterpart(base=("compile",))
DEBIASED = objective("weighting: {target: ldm.diffusion.weighting.Debiased}")
EXPORT = Counterpart(
    base=("export",),
    example="fp16",
    choices={
        name: Counterpart((f"{CALLBACKS}.export.params.dtype={short}",), ("export",))
        for name, short in {"fp16": "fp16", "float": "fp32", "bf16": "bf16"}.items()
    },
)
