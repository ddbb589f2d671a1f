"""Whether an optimizer can step where and how the run computes."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ldm.ema.schedule_free import not_in_shards
from ldm.errors import Fault
from ldm.util import instantiate_from_config
from lun.strategies.combinations import Strategy

MADE_FOR_GPUS = "bitsandbytes."
SCHEDULE_FREE = "schedulefree."
NUMBERS = 4096  # from so many on states have 8 bits


def require_whole_weights(model: Mapping[str, Any], strategy: Strategy) -> None:
    """Raise `Fault` CFG08 for a schedule-free optimizer where weights are in shards, before anything is written."""
    recipe = (model.get("params") or {}).get("optimizer_config")
    if strategy == "fsdp" and recipe and str(recipe["target"]).startswith(SCHEDULE_FREE):
        raise not_in_shards()


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
