"""What streaming blocks costs, as the plan tells it."""

from typing import Any

import pytest

from ldm.models.model_parts import PartSize
from lun.plan.fixed_memory import GIB
from lun.plan.swap_cost import SwapCost, swap_cost

FROZEN_HALF = {"target": "lun.strategies.precision.Bf16Mixed", "params": {"frozen_half": True}}
NETWORK = PartSize("UNet", 1000, 100, blocks=(100, 200, 300, 250))


def config(precision: Any, **params: Any) -> dict[str, Any]:
    swap = {"target": "lun.callbacks.BlockSwap", "params": params}
    return {"lightning": {"trainer": {"precision": precision}, "callbacks": {"swap": swap, "off": None}}}


@pytest.mark.parametrize(("precision", "size"), [("32-true", 4), (FROZEN_HALF, 2), ("bf16-true", 2)], ids=str)
def test_a_block_takes_what_its_frozen_weights_do_in_the_precision(precision: Any, size: int) -> None:
    cost = swap_cost(config(precision), [NETWORK])
    assert cost == SwapCost((100 * size, 200 * size, 300 * size, 250 * size), 4)
    assert cost.carried == 2 * 850 * size and cost.away == 300 * size


def test_so_many_blocks_as_are_asked_for_cost_something() -> None:
    assert swap_cost(config("32-true", blocks=2), [NETWORK]) == SwapCost((400.0, 1200.0), 4)
    assert swap_cost({"lightning": {"callbacks": {}}}, [NETWORK]) is None


def test_the_plan_tells_bytes_and_seconds() -> None:
    told = SwapCost((2.0 * GIB, GIB, GIB), 12).describe()
    assert told.startswith("3 of 12 blocks in main memory (4.00 GiB); 8.00 GiB over the bus a micro-batch: 0.34 s at")
