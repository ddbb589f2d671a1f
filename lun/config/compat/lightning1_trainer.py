"""Trainer arguments of Lightning 1.x: renamed, dropped or refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lun.config.compat.rewriting import Config, Upgrade, at, put


@dataclass(frozen=True)
class Removed:
    """Why an argument is gone, and what to do instead."""

    why: str
    fix: str = "delete the line"


REMOVED: Mapping[str, Removed] = {
    "gpus": Removed("removed in Lightning 2.0", "lightning.trainer.accelerator=gpu and lightning.trainer.devices=..."),
    "num_processes": Removed("removed in Lightning 2.0", "lightning.trainer.devices=..."),
    "auto_select_gpus": Removed("removed in Lightning 2.0", "name the devices: lightning.trainer.devices=0,"),
    "tpu_cores": Removed("removed in Lightning 2.0, and this program trains on CPUs and GPUs"),
    "ipus": Removed("removed in Lightning 2.0, and this program trains on CPUs and GPUs"),
    "track_grad_norm": Removed("removed in Lightning 2.0"),
    "weights_save_path": Removed("removed in Lightning 1.8; checkpoints lie in the run directory", "--logdir DIR"),
    "resume_from_checkpoint": Removed("removed in Lightning 2.0", "--resume CHECKPOINT"),
    "auto_lr_find": Removed("removed in Lightning 2.0", "set model.base_learning_rate"),
    "replace_sampler_ddp": Removed("the data module cuts batches to ranks by itself"),
    "auto_scale_batch_size": Removed("removed in Lightning 2.0", "set data.params.batch_size"),
    "amp_backend": Removed("removed in Lightning 2.0: native AMP is always used"),
    "amp_level": Removed("removed in Lightning 2.0: native AMP is always used"),
    "move_metrics_to_cpu": Removed("removed in Lightning 2.0"),
    "multiple_trainloader_mode": Removed("removed in Lightning 2.0"),
    "checkpoint_callback": Removed("removed in Lightning 1.7", "lightning.callbacks.<name> configures savers"),
    "progress_bar_refresh_rate": Removed("removed in Lightning 1.7"),
    "weights_summary": Removed("removed in Lightning 1.7"),
    "flush_logs_every_n_steps": Removed("removed in Lightning 1.7"),
    "log_gpu_memory": Removed("removed in Lightning 1.7"),
    "terminate_on_nan": Removed("removed in Lightning 1.7; a loss that is not finite always ends the run"),
}
OLD_ARGUMENTS = frozenset(REMOVED)

# Without a value these asked for nothing; with one they still have no successor.
_REFUSED_WITH_VALUE = ("tpu_cores", "ipus", "resume_from_checkpoint")
# What Lightning 1.x, other trainers and torch call them.
_PRECISION = {
    **dict.fromkeys(("16", "fp16", "float16", "half"), "16-mixed"),
    **dict.fromkeys(("bf16", "bfloat16"), "bf16-mixed"),
    **dict.fromkeys(("fp32", "float32", "no"), "32-true"),
}
_OLD_ACCELERATORS = ("ddp", "ddp_spawn", "deepspeed", "fsdp")
_SHARDED = "sharded by FSDP2, which spreads weights and gradients as well"
_STARTED = "processes are always started anew, one a device"
# How Lightning 1.x named a strategy -> today's name, and what is said of the difference.
STRATEGIES: Mapping[str, tuple[str, str]] = {
    "fsdp_native": ("fsdp", ""),
    "fsdp_native_full_shard_offload": ("fsdp_cpu_offload", ""),
    "ddp_fully_sharded": ("fsdp", ""),
    "ddp_sharded": ("fsdp", _SHARDED),
    "ddp_sharded_find_unused_parameters_false": ("fsdp", _SHARDED),
    "ddp_sharded_spawn": ("fsdp", _SHARDED),
    "ddp_sharded_spawn_find_unused_parameters_false": ("fsdp", _SHARDED),
    "ddp_find_unused_parameters_false": ("ddp", ""),
    **{
        f"ddp_{start}{ending}": (f"ddp{ending.removesuffix('_find_unused_parameters_false')}", _STARTED)
        for start in ("spawn", "fork", "notebook")
        for ending in ("", "_find_unused_parameters_false", "_find_unused_parameters_true")
    },
}


def trainer(config: Config) -> Upgrade:
    """`lightning.trainer` as Lightning 2.6 takes it; what has no certain meaning stays, and the check refuses it."""
    given = at(config, "lightning", "trainer")
    notes: list[str] = []
    new = _with_devices(given, notes)
    new = _with_strategy(new, notes)
    new = _with_precision(new, notes)
    new = _without_removed(new, notes)
    new = _with_steps(new, notes)
    return Upgrade(put(config, new, "lightning", "trainer"), tuple(notes))


def _with_devices(given: Config, notes: list[str]) -> Config:
    """`gpus` and `num_processes` as `devices`; no GPUs means the CPU."""
    kept = {key: value for key, value in given.items() if key not in ("gpus", "num_processes")}
    for old, accelerator in (("gpus", "gpu"), ("num_processes", "cpu")):
        value = given.get(old)
        if value is None or "devices" in kept:
            continue
        on_cpu = value in (0, "0", [], "")
        kept["devices"] = 1 if on_cpu else value
        kept.setdefault("accelerator", "cpu" if on_cpu else accelerator)
        notes.append(
            f"lightning.trainer.{old}: {value} is read as accelerator: {kept['accelerator']}, "
            f"devices: {kept['devices']}"
        )
    return kept


def _with_strategy(given: Config, notes: list[str]) -> Config:
    """`accelerator: ddp`, as Lightning had it before 1.5, and names of strategies that have a successor."""
    accelerator = given.get("accelerator")
    if accelerator in _OLD_ACCELERATORS:
        notes.append(f"lightning.trainer.accelerator: {accelerator} is read as strategy: {accelerator}")
        given = {"strategy": accelerator, **given, "accelerator": "auto"}
    old = given.get("strategy")
    if not isinstance(old, str) or old not in STRATEGIES:
        return given
    new, difference = STRATEGIES[old]
    notes.append(f"lightning.trainer.strategy: {old} is read as {new}" + (f": {difference}" if difference else ""))
    return {**given, "strategy": new}


def _with_precision(given: Config, notes: list[str]) -> Config:
    new = _PRECISION.get(str(given.get("precision")).lower())
    if new is None:
        return given
    notes.append(f"lightning.trainer.precision: {given['precision']} is read as {new}")
    return {**given, "precision": new}


def _without_removed(given: Config, notes: list[str]) -> Config:
    dropped = [
        key for key, value in given.items() if key in REMOVED and not (key in _REFUSED_WITH_VALUE and _asks(value))
    ]
    noted = [key for key in dropped if _asks(given[key])]
    if noted:
        reasons = "; ".join(f"{key} ({REMOVED[key].why})" for key in noted)
        notes.append(f"lightning.trainer: without effect here, ignored: {reasons}")
    return {key: value for key, value in given.items() if key not in dropped}


MOST_EPOCHS = 2**53
"""Beyond which a number of epochs is not the same as a float, and nobody's."""


def _asks(value: Any) -> bool:
    return value not in (None, False, -1, "")


def _with_steps(given: Config, notes: list[str]) -> Config:
    """Lightning sees one endless epoch, so that a validation every so many epochs would never come."""
    epochs = given.get("check_val_every_n_epoch")
    if not isinstance(epochs, int) or isinstance(epochs, bool) or not 1 <= epochs < MOST_EPOCHS:
        return {"check_val_every_n_epoch": None, **given}
    new = {**given, "check_val_every_n_epoch": None}
    if given.get("val_check_interval") is None:
        new["val_check_interval"] = float(epochs)
        read = f"read as val_check_interval: {float(epochs)} (epochs)"
    else:
        read = "ignored beside val_check_interval"
    notes.append(f"lightning.trainer.check_val_every_n_epoch: {epochs} is {read}")
    return new
