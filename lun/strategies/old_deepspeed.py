"""The old way to ask for DeepSpeed: `strategy: deepspeed` beside a section `lightning.deepspeed`."""

from collections.abc import Mapping
from typing import Any

from ldm.errors import Fault

TARGET = "lun.strategies.deepspeed.DeepSpeed"
_OFFLOADED = {"offload_optimizer": True}
_ALL_OFFLOADED = {"stage": 3, "offload_parameters": True, **_OFFLOADED}
_ON_NVME = {"remote_device": "nvme", "offload_params_device": "nvme", "offload_optimizer_device": "nvme"}
NAMES: Mapping[str, Mapping[str, Any]] = {
    "deepspeed": {},
    "deepspeed_stage_1": {"stage": 1},
    "deepspeed_stage_2": {"stage": 2},
    "deepspeed_stage_2_offload": {"stage": 2, **_OFFLOADED},
    "deepspeed_stage_3": {"stage": 3},
    "deepspeed_stage_3_offload": _ALL_OFFLOADED,
    "deepspeed_stage_3_offload_nvme": {**_ALL_OFFLOADED, **_ON_NVME},
}


def with_deepspeed(trainer: Mapping[str, Any], section: Mapping[str, Any]) -> dict[str, Any]:
    """`trainer` with a recipe where its strategy is one of `NAMES`; what the section says wins over the name.

    Raises `Fault` CFG08 for a name like these that is none of them.
    """
    name = trainer.get("strategy")
    if not isinstance(name, str) or not name.startswith("deepspeed"):
        return dict(trainer)
    if name not in NAMES:
        raise Fault(
            "CFG08",
            f"there is no strategy {name}",
            where="lightning.trainer.strategy",
            fix=f"one of {', '.join(NAMES)}",
        )
    return {**trainer, "strategy": {"target": TARGET, "params": {**NAMES[name], **section}}}


def unread_section(trainer: Mapping[str, Any], section: Mapping[str, Any]) -> str | None:
    """What to say where the section stands beside another strategy, as in files that are used with several."""
    if not section or str(trainer.get("strategy")).startswith("deepspeed"):
        return None
    return "lightning.deepspeed is read only where lightning.trainer.strategy is deepspeed, and is without effect here"
