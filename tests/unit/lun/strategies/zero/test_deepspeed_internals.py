"""DeepSpeed's insides: one that lacks what checkpoints read of it is refused by name before it trains.

What they mean is shown by `tests/distributed/test_zero.py`, which compares ZeRO's weights with one process'.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from ldm.errors import Fault
from lun.strategies.zero import deepspeed_internals as internals

pytest.importorskip("deepspeed")

OF_STAGE_3 = (*internals.STAGE_3, *internals.STAGE_3_WRITES, "optimizer")
OF_STAGE_2 = ("single_partition_of_fp32_groups", "update_lp_params", "optimizer")
CASES = [(OF_STAGE_3, name) for name in OF_STAGE_3[1:]] + [(OF_STAGE_2, name) for name in OF_STAGE_2]


def optimizer(names: tuple[str, ...], without: str = "") -> Any:
    return SimpleNamespace(**{name: [] for name in names if name != without})


@pytest.mark.parametrize(("names", "gone"), CASES)
def test_an_optimizer_that_lacks_something_is_a_fault_that_names_it(names: tuple[str, ...], gone: str) -> None:
    internals.require_known_insides(optimizer(names))
    with pytest.raises(Fault, match=f"DEP01[\\s\\S]*{gone}"):
        internals.require_known_insides(optimizer(names, without=gone))


def test_stage_3_is_told_from_the_others_by_the_real_classes() -> None:
    from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3
    from deepspeed.runtime.zero.stage_1_and_2 import DeepSpeedZeroOptimizer

    for name in internals.STAGE_3_WRITES:
        assert hasattr(DeepSpeedZeroOptimizer_Stage3, name) and not hasattr(DeepSpeedZeroOptimizer, name)
    assert hasattr(DeepSpeedZeroOptimizer, "update_lp_params")
