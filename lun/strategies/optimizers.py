"""Whether an optimizer can step where and how the run computes."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from ldm.admission import DRAWER, admitted, granted
from ldm.ema.schedule_free import not_in_shards
from ldm.errors import Fault
from ldm.util import instantiate_from_config
from lun.strategies.combinations import strategy_kind

_ADAMS = {"Adam", "AdamW"}
# What they compute does not change where weights are joined and cut anew. States of 8 bits share scales in blocks.
ELEMENTWISE = {
    "torch.optim": {*_ADAMS, "Adadelta", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"},
    "deepspeed.ops": {"DeepSpeedCPUAdam", "DeepSpeedCPUAdagrad", "DeepSpeedCPULion", "FusedAdam", "FusedLion"},
    "bitsandbytes": {*_ADAMS, "Lion"},
    "pytorch_optimizer": {"Lion"},
}
MADE_FOR_GPUS = "bitsandbytes."
SCHEDULE_FREE = "schedulefree."
UNTESTED = "zero_allow_untested_optimizer"
NUMBERS = 4096  # from so many on states have 8 bits


def is_elementwise(kind: type) -> bool:
    """Whether an optimizer's class is known to treat each element for itself."""
    return any(kind.__module__.startswith(home) and kind.__name__ in names for home, names in ELEMENTWISE.items())


def require_whole_weights(model: Mapping[str, Any], strategy: object) -> None:
    """Raise `Fault` CFG08 where weights are in shards and the optimizer would see only a part of what it looks at.

    Asked before anything is written, with the Trainer's strategy as it is configured. Whoever names code of their own
    is believed; ZeRO asks for what it is made of when it is there.
    """
    recipe = (model.get("params") or {}).get("optimizer_config")
    kind_of_shards = strategy_kind(strategy)
    if kind_of_shards not in FAULTS or not recipe:
        return
    if str(recipe["target"]).startswith(SCHEDULE_FREE):
        raise not_in_shards()
    kind = admitted(recipe["target"])
    own = tuple(f"{package}." for package in (DRAWER, *granted()))
    if not inspect.isclass(kind) or is_elementwise(kind) or kind.__module__.startswith(own):
        return
    params = (strategy.get("params") or {}) if isinstance(strategy, Mapping) else {}
    if not params.get(UNTESTED):
        raise FAULTS[kind_of_shards](recipe["target"])


def require_whole_base(model: Mapping[str, Any], strategy: object) -> None:
    """Raise `Fault` CFG08 for a quantised base whose codes a strategy would cut into shards."""
    kind = strategy_kind(strategy)
    if (model.get("params") or {}).get("base_config") and kind in FAULTS:
        raise Fault(
            "CFG08",
            f"a quantised base cannot be trained on under {kind}",
            where="model.params.base_config",
            why="it cuts weights into shards, and codes of few bits belong to blocks that share a scale",
            fix="lightning.trainer.strategy=ddp, or base_config=null",
        )


def not_in_parts(target: str) -> Fault:
    """Says that FSDP2 would give an optimizer parts of weights."""
    return Fault(
        "CFG08",
        f"{target} is not known to be right where weights are in shards",
        where="model.params.optimizer_config.target",
        why="it looks at whole matrices, their norms or blocks of them, of which each rank has a part",
        fix="torch.optim.AdamW, or lightning.trainer.strategy=ddp",
    )


def not_in_partitions(target: str) -> Fault:
    """Says that ZeRO would give an optimizer runs of joined weights."""
    return Fault(
        "CFG08",
        f"{target} is not known to be right under DeepSpeed's ZeRO",
        where="model.params.optimizer_config.target",
        why="ZeRO joins all weights and cuts them anew for the ranks: an optimizer that looks at a whole matrix, its"
        " norm or blocks of it (Adafactor, LAMB, Muon, Prodigy, 8-bit ones) would do something else than it says",
        fix=f"torch.optim.AdamW, or lightning.trainer.strategy=ddp, or, if it treats each element for itself:"
        f" lightning.trainer.strategy.params.{UNTESTED}=true",
    )


FAULTS: Mapping[str, Callable[[str], Fault]] = {"fsdp": not_in_parts, "deepspeed": not_in_partitions}


def require_stepping(model: Mapping[str, Any], on_cpu: bool) -> None:
    """Raise `Fault` DEV06 for an optimizer of bitsandbytes that cannot step on a CPU, where the run would.

    Which ones can is another in each of its versions, so that two steps are made. `model` is the config's section.
    """
    recipe = (model.get("params") or {}).get("optimizer_config")
    if not on_cpu or not recipe or not str(recipe["target"]).startswith(MADE_FOR_GPUS):
        return
    numbers = nn.Parameter(torch.ones(NUMBERS))
    optimizer: torch.optim.Optimizer = instantiate_from_config(recipe, [numbers], lr=1e-3)
    try:
        for _ in range(2):
            numbers.grad = torch.ones(NUMBERS)
            optimizer.step()
    except (
        RuntimeError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        NameError,
        AssertionError,
        OSError,
    ) as error:
        raise Fault(
            "DEV06",
            f"{recipe['target']} cannot step on a CPU",
            where="model.params.optimizer_config.target",
            why=f"{type(error).__name__}: {error}",
            fix="model.params.optimizer_config.target=torch.optim.AdamW, or the layer adafactor behind --base's files,"
            " or --accelerator gpu",
        ) from error
