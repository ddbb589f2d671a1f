"""Names of strategies, and the recipes that they stand for: this program's own, and DeepSpeed's of old."""

from collections.abc import Mapping
from typing import Any

from ldm.errors import Fault
from ldm.util import Recipe, is_recipe
from lun.config.suggestions import nearest

WHERE = "lightning.trainer.strategy"
DDP: Recipe = {"target": "lun.strategies.ddp.DDP"}
_FSDP = "lun.strategies.fsdp.FSDP"
_DEEPSPEED = "lun.strategies.deepspeed.DeepSpeed"
_OFFLOADED = {"offload_optimizer": True}
_ALL_OFFLOADED = {"stage": 3, "offload_parameters": True, **_OFFLOADED}
_ON_NVME = {"remote_device": "nvme", "offload_params_device": "nvme", "offload_optimizer_device": "nvme"}
DEEPSPEED: Mapping[str, Mapping[str, Any]] = {
    "deepspeed": {},
    "deepspeed_stage_1": {"stage": 1},
    "deepspeed_stage_2": {"stage": 2},
    "deepspeed_stage_2_offload": {"stage": 2, **_OFFLOADED},
    "deepspeed_stage_3": {"stage": 3},
    "deepspeed_stage_3_offload": _ALL_OFFLOADED,
    "deepspeed_stage_3_offload_nvme": {**_ALL_OFFLOADED, **_ON_NVME},
}
"""Lightning's names, and the params of a `DeepSpeed` that each means."""
NAMES: Mapping[str, Recipe] = {
    "ddp": DDP,
    "ddp_find_unused_parameters_true": {**DDP, "params": {"find_unused_parameters": True}},
    "ddp_find_unused_parameters_false": DDP,
    "fsdp": {"target": _FSDP},
    "fsdp_cpu_offload": {"target": _FSDP, "params": {"cpu_offload": True}},
    **{name: {"target": _DEEPSPEED, "params": params} for name, params in DEEPSPEED.items()},
}
LIGHTNINGS = ("auto", "single_device")
"""Names that are Lightning's to read."""


def strategy_of(given: Any) -> Recipe | str:
    """The recipe that a name stands for; a recipe, and a name that Lightning reads, as it is.

    Raises `Fault` CFG08 for a name that nobody knows, and for Lightning's own that start processes amid the program or
    are for machines that nobody has tried.
    """
    if is_recipe(given):
        recipe: Recipe = given
        return recipe
    name = str(given or "auto")
    if name in LIGHTNINGS:
        return name
    if name not in NAMES:
        raise _unknown(name)
    return NAMES[name]


def with_deepspeed_section(trainer: Mapping[str, Any], section: Mapping[str, Any]) -> dict[str, Any]:
    """`trainer` with a recipe where its strategy is a name of DeepSpeed's; what `lightning.deepspeed` says wins."""
    name = trainer.get("strategy")
    if not isinstance(name, str) or name not in DEEPSPEED:
        return dict(trainer)
    return {**trainer, "strategy": {"target": _DEEPSPEED, "params": {**DEEPSPEED[name], **section}}}


def unread_section(trainer: Mapping[str, Any], section: Mapping[str, Any]) -> str | None:
    """What to say where the section stands beside another strategy, as in files that are used with several."""
    if not section or str(trainer.get("strategy")).startswith("deepspeed"):
        return None
    return "lightning.deepspeed is read only where lightning.trainer.strategy is deepspeed, and is without effect here"


def _unknown(name: str) -> Fault:
    choices = "auto, ddp, fsdp, deepspeed, or a recipe"
    if name.startswith("deepspeed"):
        return Fault("CFG08", f"there is no strategy {name}", where=WHERE, fix=f"one of {', '.join(DEEPSPEED)}")
    from lightning.pytorch.strategies import StrategyRegistry  # torch, which a configuration is read without

    if name in StrategyRegistry.available_strategies():
        return Fault("CFG08", f"strategy {name} of Lightning's cannot be used here", where=WHERE, fix=choices)
    near = nearest(name, [*NAMES, *LIGHTNINGS])
    return Fault("CFG08", f"there is no strategy {name}", where=WHERE, fix=f"did you mean {near}?" if near else choices)
