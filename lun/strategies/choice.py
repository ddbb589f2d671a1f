"""The strategy of a run: a short name, a recipe, or `auto`, which is DDP on several devices."""

from collections.abc import Mapping
from typing import Any

from lightning.pytorch.strategies import StrategyRegistry

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.util import Recipe, is_recipe
from lun.config.errors import nearest
from lun.strategies.devices import asked
from lun.strategies.old_deepspeed import NAMES as DEEPSPEED

SHORT: Mapping[str, Recipe] = {
    "ddp": {"target": "lun.strategies.ddp.DDP"},
    "ddp_find_unused_parameters_true": {
        "target": "lun.strategies.ddp.DDP",
        "params": {"find_unused_parameters": True},
    },
    "ddp_find_unused_parameters_false": {"target": "lun.strategies.ddp.DDP"},
    "fsdp": {"target": "lun.strategies.fsdp.FSDP"},
    "fsdp_cpu_offload": {"target": "lun.strategies.fsdp.FSDP", "params": {"cpu_offload": True}},
}
AS_THEY_ARE = ("auto", "single_device")


def with_strategy(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a Trainer with a recipe in the place of a short name.

    Raises `Fault` CFG08 for a name that nobody knows, and for Lightning's own that start processes amid the program or
    are for machines that nobody has tried.
    """
    named = arguments.get("strategy") or "auto"
    if is_recipe(named):
        return dict(arguments)
    if named == "auto" and _several_devices(arguments):
        named = "ddp"
    if named not in (*SHORT, *AS_THEY_ARE, *DEEPSPEED):
        raise _unknown(str(named))
    return {**arguments, "strategy": SHORT.get(named, named)}


def _unknown(name: str) -> Fault:
    where, choices = "lightning.trainer.strategy", "auto, ddp, fsdp, deepspeed, or a recipe"
    if name in StrategyRegistry.available_strategies():
        return Fault("CFG08", f"strategy {name} of Lightning's cannot be used here", where=where, fix=choices)
    near = nearest(name, [*SHORT, *AS_THEY_ARE, *DEEPSPEED])
    fix = f"did you mean {near}?" if near else choices
    return Fault("CFG08", f"there is no strategy {name}", where=where, fix=fix)


def require_strategy(trainer: Mapping[str, Any]) -> None:
    """Raise the `Fault` of a strategy that cannot be used here, or not with what stands beside it."""
    strategy = with_strategy(trainer)["strategy"]
    kind: Any = admitted(strategy["target"]) if is_recipe(strategy) else None
    if hasattr(kind, "refuse_trainer"):
        kind.refuse_trainer(trainer)


def _several_devices(arguments: Mapping[str, Any]) -> bool:
    settings = {name: arguments[name] for name in ("accelerator", "devices", "num_nodes") if name in arguments}
    return asked(**settings, enable_checkpointing=False).world_size > 1
