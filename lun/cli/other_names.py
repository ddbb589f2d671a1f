"""What other trainers call a setting, and what to type here instead.

Names of kohya's sd-scripts, of diffusers' example scripts, of OneTrainer, SimpleTuner and lists of hyperparameters.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ldm.errors import Fault
from ldm.shell import quoted

VALUE = "{}"


@dataclass(frozen=True)
class Here:
    """What stands for an option of another trainer.

    words    what to type, `{}` being the value; none where nothing has to be said, or nothing can be
    base     overlays to name after --base
    say      what there is to know besides
    reads    the value as it is written here
    example  a value as it is written there; "" for an option without one
    """

    words: tuple[str, ...] = ()
    base: tuple[str, ...] = ()
    say: str = ""
    reads: Callable[[str], str] = str
    example: str = ""

    def typed(self, value: str | None) -> list[str]:
        """The words for a value; a capital one stands for it where none was given."""
        text = "VALUE" if value is None else self.reads(value)
        return [word.replace(VALUE, text) for word in self.words]


def here(name: str) -> Here | None:
    """What stands for the option `name` of another trainer, with or without dashes."""
    return OTHERS.get(name.lstrip("-").replace("-", "_").lower())


def _flag(flag: str, example: str, reads: Callable[[str], str] = str) -> Here:
    return Here((flag, VALUE), reads=reads, example=example)


def _setting(path: str, example: str, reads: Callable[[str], str] = str) -> Here:
    return Here((f"{path}={VALUE}",), reads=reads, example=example)


def _among(known: Mapping[str, str], otherwise: str = VALUE) -> Callable[[str], str]:
    return lambda text: known.get(text.lower(), otherwise.replace(VALUE, text))


def _first_number(text: str) -> str:
    """`512` of `512,768`."""
    match = re.search(r"\d+", text)
    return match[0] if match else text


def _listed(text: str) -> str:
    return json.dumps([text], ensure_ascii=False)


_MIXED = {"no": "32-true", "fp32": "32-true", "bf16": "bf16-mixed", "fp16": "16-mixed"}
_OPTIMIZER = {
    "adamw8bit": "bitsandbytes.optim.AdamW8bit",
    "adafactor": "ldm.training.matrices.Adafactor",
    "came": "pytorch_optimizer.CAME",
    "lion": "pytorch_optimizer.Lion",
    "lion8bit": "bitsandbytes.optim.Lion8bit",
    "pagedadamw8bit": "bitsandbytes.optim.PagedAdamW8bit",
    "prodigy": "prodigyopt.Prodigy",
    "adamwschedulefree": "schedulefree.AdamWScheduleFree",
}
_SCHEDULE = {
    "constant": "WarmupConstant",
    "constant_with_warmup": "WarmupConstant",
    "cosine": "WarmupCosine",
    "cosine_with_restarts": "WarmupRestarts",
    "rex": "WarmupRex",
    "linear": "WarmupLinear",
    "polynomial": "WarmupLinear",
}
_CALLBACKS = "lightning.callbacks"
_TRAIN = "data.params.train.params"

_RATE = _setting("model.base_learning_rate", "1e-5")
_BATCH = _setting("data.params.batch_size", "4")
_ACCUMULATE = _flag("--accumulate_grad_batches", "2")
_STEPS = _flag("--max_steps", "2000")
_EPOCHS = _flag("--max_epochs", "10")
_FROM = _flag("--init-from", "sd.safetensors")
_DATA = _flag("--data_root", "my pictures")
_LOGS = _flag("--logdir", "runs/first try")
_NAME = _flag("--name", "pony")
_SIZE = _setting(f"{_TRAIN}.size", "512,512", _first_number)
_WORKERS = _setting("data.params.num_workers", "4")
_CLIP = _flag("--gradient_clip_val", "1.0")
_CACHE = Here(base=("latent-cache",))
_SNR = Here(("model.params.objective.params.weighting.params.gamma={}",), base=("min-snr",), example="5.0")
_TERMINAL = Here(base=("zero-terminal-snr",), say="for models that predict v, such as sd21-v")
_CONTEXT = Here(base=("train-text-encoder",))
_SAVE = _setting(f"{_CALLBACKS}.periodic_checkpoint.params.every_n_train_steps", "1000")
_SAMPLE = _setting(f"{_CALLBACKS}.image_logger.params.batch_frequency", "500")
_PROMPT = _setting(f"{_CALLBACKS}.image_logger.params.prompts", "a fox, [sitting]", _listed)
_UCG = _setting("model.params.ucg_rate", "0.1")
_FLIP = Here((f"{_TRAIN}.flip_p=0.5",))
_ATTENTION = Here(say="nothing to say: torch's fused attention is always used")
_ALWAYS = Here(say="nothing to say: TensorBoard and metrics.jsonl are always written")
_FOUND = Here(say="nothing to say: it is found")
_LORA = "model.params.adapter_config.params.rules.attention.kind.params"
_ADAPTER = Here(base=("lora",), say="of other kinds (LoCon, LoHa, LoKr, DoRA) docs/adapters.md")
_RANK = Here((f"{_LORA}.rank={{}}",), ("lora",), example="8")
_ALPHA = Here((f"{_LORA}.alpha={{}}",), ("lora",), example="8")
_IN_MAIN_MEMORY = Here(say="nothing to say: averaged weights lie in main memory, and are copied there beside training")
_IN_ONE_PASS = Here(say="nothing to say: an update reads and writes all averaged weights once")
_VAE = _setting("model.params.first_stage_config.params.ckpt_path", "vae.safetensors")
_BUCKETS = Here(base=("buckets",))
_CHECKPOINTING = Here(say="nothing to say: it is on; --base no-checkpointing turns it off")
_OPTIMIZERS = _setting("model.params.optimizer_config.target", "AdamW", _among(_OPTIMIZER, f"torch.optim.{VALUE}"))
_V = Here(("model.params.parameterization=v",))

OTHERS: Mapping[str, Here] = {
    **dict.fromkeys(("learning_rate", "lr", "unet_lr", "learning_rate_unet", "base_lr"), _RATE),
    **dict.fromkeys(("batch_size", "train_batch_size", "per_device_train_batch_size", "bs"), _BATCH),
    **dict.fromkeys(("gradient_accumulation_steps", "grad_accum", "accumulate_grad"), _ACCUMULATE),
    **dict.fromkeys(("max_train_steps", "train_steps", "steps", "num_steps", "max_iterations"), _STEPS),
    **dict.fromkeys(("max_train_epochs", "num_train_epochs", "epochs", "num_epochs"), _EPOCHS),
    **dict.fromkeys(
        ("pretrained_model_name_or_path", "pretrained_model", "base_model_name", "base_model", "model_path", "ckpt"),
        _FROM,
    ),
    **dict.fromkeys(
        ("train_data_dir", "instance_data_dir", "dataset_name", "dataset_dir", "dataset", "data_dir", "image_dir"),
        _DATA,
    ),
    **dict.fromkeys(("output_dir", "logging_dir", "out_dir", "workspace_dir"), _LOGS),
    **dict.fromkeys(("output_name", "run_name", "wandb_run_name", "tracker_run_name", "model_name"), _NAME),
    **dict.fromkeys(("resolution", "image_size", "size"), _SIZE),
    **dict.fromkeys(("num_workers", "workers", "dataloader_num_workers", "max_data_loader_n_workers"), _WORKERS),
    **dict.fromkeys(("max_grad_norm", "clip_grad_norm", "grad_clip"), _CLIP),
    "mixed_precision": _flag("--precision", "bf16", _among(_MIXED)),
    "train_dtype": _flag("--precision", "bf16", _among(_MIXED)),
    "bf16": Here(("--precision", "bf16-mixed")),
    "fp16": Here(("--precision", "16-mixed")),
    "full_bf16": Here(("--precision", "bf16-true")),
    "gradient_checkpointing": _CHECKPOINTING,
    "optimizer_type": _OPTIMIZERS,
    "optimizer": _OPTIMIZERS,
    "use_8bit_adam": Here(base=("adamw8bit",)),
    "fused_backward_pass": Here(base=("fused-backward",)),
    "adam_weight_decay": _setting("model.params.optimizer_config.params.weight_decay", "0.01"),
    "weight_decay": _setting("model.params.optimizer_config.params.weight_decay", "0.01"),
    "lr_scheduler": _setting(
        "model.params.scheduler_config.target", "cosine", lambda text: f"ldm.lr_scheduler.{_among(_SCHEDULE)(text)}"
    ),
    "lr_warmup_steps": _setting("model.params.scheduler_config.params.warm_up_steps", "100"),
    "snr_gamma": _SNR,
    "min_snr_gamma": _SNR,
    "noise_offset": Here(("model.params.objective.params.noise.params.strength={}",), ("offset-noise",), example="0.1"),
    "zero_terminal_snr": _TERMINAL,
    "rescale_betas_zero_snr": _TERMINAL,
    "v_parameterization": _V,
    "prediction_type": _setting(
        "model.params.parameterization", "v_prediction", _among({"v_prediction": "v", "epsilon": "eps"})
    ),
    "train_text_encoder": _CONTEXT,
    "use_ema": Here(("model.params.use_ema=true",)),
    "ema_decay": _setting("model.params.ema_decay", "0.999"),
    "ema_update_interval": _setting("model.params.ema_config.params.update_every", "10"),
    "ema_device": _setting("model.params.ema_config.params.device", "cpu"),
    **dict.fromkeys(("offload_ema", "ema_cpu_only"), _IN_MAIN_MEMORY),
    **dict.fromkeys(("foreach_ema", "ema_foreach", "ema_foreach_disable", "disable_foreach_ema"), _IN_ONE_PASS),
    "max_shard_size": Here(say="of an export: python -m lun.convert RUN DIR --to diffusers --max-shard-size 2GB"),
    "random_flip": _FLIP,
    "flip_aug": _FLIP,
    "center_crop": Here(say="nothing to say: the centre is what is cut"),
    "random_crop": Here((f"{_TRAIN}.crop=random",)),
    "color_aug": Here((f"{_TRAIN}.colour_jitter={{hue: 0.02}}",)),
    "caption_dropout_rate": _UCG,
    "caption_dropout_probability": _UCG,
    "caption_extension": _FOUND,
    "caption_column": _FOUND,
    "shuffle_caption": Here((f'{_TRAIN}.captions={{split_tags: ",", shuffle_tag_p: 1.0}}',)),
    "keep_tokens": Here((f'{_TRAIN}.captions={{split_tags: ",", keep_tags: {{}}}}',), example="1"),
    "enable_bucket": _BUCKETS,
    "bucket_reso_steps": Here(("data.params.buckets.step={}",), ("buckets",), example="64"),
    "cache_latents": _CACHE,
    "cache_latents_to_disk": _CACHE,
    "vae_cache_dir": _CACHE,
    "vae": _VAE,
    "pretrained_vae_model_name_or_path": _VAE,
    "save_every_n_steps": _SAVE,
    "checkpointing_steps": _SAVE,
    "save_steps": _SAVE,
    "checkpoints_total_limit": _setting(f"{_CALLBACKS}.periodic_checkpoint.params.save_top_k", "3"),
    "sample_every_n_steps": _SAMPLE,
    "validation_steps": _SAMPLE,
    "sample_prompts": _PROMPT,
    "validation_prompt": _PROMPT,
    "validation_prompts": _PROMPT,
    "clip_skip": Here(("model.params.cond_stage_config.params.layer=penultimate",), example="2"),
    "max_token_length": _setting("model.params.cond_stage_config.params.max_length", "225"),
    "num_gpus": _flag("--devices", "1"),
    "gpu_ids": _flag("--devices", "1"),
    **dict.fromkeys(
        ("xformers", "sdpa", "mem_eff_attn", "enable_xformers_memory_efficient_attention", "attention"), _ATTENTION
    ),
    **dict.fromkeys(("report_to", "log_with", "log_prefix"), _ALWAYS),
    **dict.fromkeys(("network_module", "network_args", "network_train_unet_only", "use_lora"), _ADAPTER),
    **dict.fromkeys(("network_dim", "rank", "lora_rank"), _RANK),
    **dict.fromkeys(("network_alpha", "lora_alpha"), _ALPHA),
    "blocks_to_swap": Here((f"{_CALLBACKS}.block_swap.params.blocks={{}}",), ("block-swap",), example="8"),
    "torch_compile": Here(base=("compile",)),
    **dict.fromkeys(("save_model_as", "save_precision"), Here(base=("export",))),
}


@dataclass
class Foreign:
    """Words of a command line that only other trainers know, and the line that says the same here."""

    written: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    base: list[str] = field(default_factory=list)
    meaning: list[str] = field(default_factory=list)

    def add(self, name: str, given: str, value: str | None, known: Here) -> None:
        """An option `name`, written as `given`, with a value or without."""
        typed = known.typed(value)
        self.written.append(name)
        self.words += typed
        self.base += [name for name in known.base if name not in self.base]
        shown = " ".join(filter(None, [f"--base ... {quoted(*known.base)}" if known.base else "", quoted(*typed)]))
        self.meaning.append("; ".join(filter(None, [f"{given} is here {shown}" if shown else given, known.say])))

    def fault(self, base: list[str], others: list[str]) -> Fault:
        """CLI03 with the whole command as it is typed here; `others` are the words that were right."""
        many = len(self.written) > 1
        what = f"{', '.join(self.written)} {'are words' if many else 'is a word'} of other trainers"
        line = ["--base", *(base or ["sd15"]), *self.base, *self.words, *others]
        return Fault("CLI03", what, why="\n".join(self.meaning), fix=f"python main.py {quoted(*line)}")
