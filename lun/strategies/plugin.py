"""The precision that a config names, as the plugin that Lightning's Trainer takes."""

import logging
from collections.abc import Mapping
from typing import Any

import torch

from ldm.util import instantiate_from_config, is_recipe
from lun.strategies.combinations import family_of, precision_name, require_combination
from lun.strategies.precision import NAMES
from lun.strategies.zero.precision import ZeroPrecision

log = logging.getLogger(__name__)


def require_precision(trainer: Mapping[str, Any], on_cpu: bool) -> None:
    """Raise `Fault` CFG08 for a precision that nothing, or not this strategy, can train in, DEV05 if not on the CPU.

    `trainer` are arguments whose strategy is a recipe or a name that Lightning knows.
    """
    require_combination(trainer.get("strategy"), policy_of(trainer.get("precision")).name, on_cpu)


def warn_if_slow(trainer: Mapping[str, Any]) -> None:
    """Say so where a precision computes much slower than fp32 would."""
    if policy_of(trainer.get("precision")).name == "16-mixed" and device_of(trainer) == "cpu":
        log.warning("warning[DEV04]: float16 on a CPU takes many times as long as fp32: it has no arithmetic for it")
        log.warning("  fix:   lightning.trainer.precision=32, or bf16-mixed")


def with_precision(trainer: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a Trainer with a plugin of ours in the place of its precision.

    By name Lightning would take bfloat16 for 16-mixed on a CPU, and make buffers bfloat16, too, in bf16-true.
    """
    policy, device = policy_of(trainer.get("precision")), device_of(trainer)
    zero = family_of(trainer.get("strategy")) == "deepspeed"
    plugin = ZeroPrecision(policy, device) if zero else policy.plugin(device)
    return {**trainer, "precision": None, "plugins": [plugin, *(trainer.get("plugins") or ())]}


def policy_of(given: Any) -> Any:
    """The policy (`lun.strategies.precision`) that a name or a recipe stands for."""
    return instantiate_from_config(given) if is_recipe(given) else NAMES[precision_name(given)]()


def device_of(trainer: Mapping[str, Any]) -> str:
    """The kind of device that a Trainer with these arguments computes on: "cpu", "cuda", ..."""
    asked = str(trainer.get("accelerator") or "auto")
    if asked == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return found.type if found else "cpu"
    return "cuda" if asked == "gpu" else asked
