"""The course of the learning rate as text."""

from typing import Any

import pytest

from lun.plan.rate_course import BARS, rate_course

COSINE = {"target": "ldm.lr_scheduler.WarmupCosine", "params": {"warm_up_steps": 100, "total_steps": 900}}
LINEAR = {"target": "torch.optim.lr_scheduler.LinearLR", "params": {"start_factor": 1.0, "end_factor": 0.5}}


def test_a_rate_that_rises_and_falls_is_drawn_so() -> None:
    told = rate_course(COSINE, 4e-3, 900)
    assert told is not None
    bars = told.split()[0]
    assert bars[0] == bars[-1] == BARS[0] and BARS[-1] in bars[3:6] and list(bars[5:]) == sorted(bars[5:], reverse=True)
    assert " 4.0e-03 at most, " in told


@pytest.mark.parametrize(
    ("recipe", "rate", "steps"),
    [
        (None, 1e-3, 900),
        ({"target": "ldm.lr_scheduler.WarmupConstant", "params": {"warm_up_steps": 0}}, 1e-3, 900),
        (COSINE, 1e-3, -1),
        (COSINE, 0.0, 900),
        (LINEAR, 1e-3, 10**9),
    ],
    ids=["none", "constant", "endless", "zero", "step by step for too long"],
)
def test_what_does_not_move_or_takes_too_long_is_not_drawn(recipe: Any, rate: float, steps: int) -> None:
    assert rate_course(recipe, rate, steps) is None


def test_a_schedule_of_torch_is_drawn_too() -> None:
    assert rate_course(LINEAR, 1e-3, 4) == "█▇▇▆  1.0e-03 at first, 1.0e-03 at most, 7.0e-04 at last"
