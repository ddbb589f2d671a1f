"""Schedules: the factor at every step, past the end too."""

import logging
import math
import pickle
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.errors import Fault
from ldm.lr_scheduler import (
    LambdaLinearScheduler,
    LambdaWarmUpCosineScheduler,
    LambdaWarmUpCosineScheduler2,
    WarmupConstant,
    WarmupCosine,
    WarmupLinear,
    WarmupRestarts,
    WarmupRex,
)

CYCLES = {
    "warm_up_steps": [2, 0],
    "f_min": [0.1, 0.0],
    "f_max": [1.0, 0.5],
    "f_start": [0.0, 0.3],
    "cycle_lengths": [10, 4],
}
ALL: list[Callable[[int], float]] = [
    WarmupConstant(3),
    WarmupCosine(20, 3, 0.1),
    WarmupLinear(20, 3, 0.1),
    WarmupRestarts(20, 3),
    WarmupRex(20, 3),
    LambdaWarmUpCosineScheduler(3, lr_min=0.1, lr_max=1.0, lr_start=0.0, max_decay_steps=20),
    LambdaWarmUpCosineScheduler2(**CYCLES),  # type: ignore[arg-type]
    LambdaLinearScheduler(**CYCLES),  # type: ignore[arg-type]
]


def of_class(value: object) -> str:
    return type(value).__name__


def test_a_warm_up_rises_evenly_and_loses_no_step() -> None:
    schedule = WarmupConstant(4)
    assert [schedule(step) for step in range(6)] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])


def test_without_warm_up_the_first_step_has_the_full_rate() -> None:
    assert WarmupConstant()(0) == WarmupCosine(10)(0) == WarmupLinear(10)(0) == 1.0


def test_a_cosine_falls_from_one_after_the_warm_up_to_the_minimum_at_the_end() -> None:
    schedule = WarmupCosine(total_steps=110, warm_up_steps=10, minimum=0.2)
    assert schedule(10) == pytest.approx(1.0)
    assert schedule(35) == pytest.approx(0.2 + 0.8 * (1 + math.cos(math.pi / 4)) / 2)
    assert schedule(60) == pytest.approx(0.6)
    assert schedule(110) == pytest.approx(0.2)


def test_a_line_falls_evenly_to_the_minimum() -> None:
    schedule = WarmupLinear(total_steps=110, warm_up_steps=10, minimum=0.2)
    assert [schedule(step) for step in (10, 35, 60, 110)] == pytest.approx([1.0, 0.8, 0.6, 0.2])


@pytest.mark.parametrize("schedule", [WarmupCosine(20, 3, 0.1), WarmupLinear(20, 3, 0.1)])
def test_after_the_end_the_minimum_stays(schedule: Callable[[int], float]) -> None:
    assert schedule(21) == schedule(10**6) == pytest.approx(0.1)


@pytest.mark.parametrize("kind", [WarmupCosine, WarmupLinear])
@settings(deadline=None, max_examples=50)
@given(total=st.integers(1, 1000), warm_up=st.integers(0, 1000), step=st.integers(0, 3000), low=st.floats(0, 1))
def test_a_factor_lies_between_nothing_and_one(
    kind: type[WarmupCosine] | type[WarmupLinear], total: int, warm_up: int, step: int, low: float
) -> None:
    factor = kind(total, warm_up, low)(step)
    assert 0 <= factor <= 1 + 1e-12
    assert step < warm_up or factor >= low - 1e-12


@pytest.mark.parametrize("kind", [WarmupCosine, WarmupLinear])
@settings(deadline=None, max_examples=50)
@given(decay=st.integers(1, 500), warm_up=st.integers(0, 100))
def test_a_rate_rises_in_the_warm_up_and_never_after_it(
    kind: type[WarmupCosine] | type[WarmupLinear], decay: int, warm_up: int
) -> None:
    factors = [kind(warm_up + decay, warm_up)(step) for step in range(warm_up + decay + 2)]
    rise, fall = factors[: warm_up + 1], factors[warm_up:]
    assert rise == sorted(rise)
    assert fall == sorted(fall, reverse=True)


def test_the_constant_of_stable_diffusion_fine_tuning_starts_small_and_then_stays_at_one() -> None:
    schedule = LambdaLinearScheduler(
        warm_up_steps=[1], cycle_lengths=[1e13], f_start=[1e-6], f_max=[1.0], f_min=[1.0], verbosity_interval=0
    )
    assert [schedule(step) for step in (0, 1, 2, 10**6)] == [1e-6, 1.0, 1.0, 1.0]


def test_one_cosine_goes_from_its_start_over_its_maximum_to_its_minimum() -> None:
    schedule = LambdaWarmUpCosineScheduler(10, lr_min=0.1, lr_max=0.9, lr_start=0.5, max_decay_steps=30)
    expected = [0.5, 0.7, 0.9, 0.1 + 0.4 * (1 + math.cos(math.pi / 4)), 0.5, 0.1, 0.1]
    assert [schedule(step) for step in (0, 5, 10, 15, 20, 30, 99)] == pytest.approx(expected)


def test_cosine_cycles_each_warm_up_and_decay() -> None:
    schedule = LambdaWarmUpCosineScheduler2(**CYCLES)  # type: ignore[arg-type]
    assert [schedule(step) for step in (0, 1, 2, 6, 10)] == pytest.approx([0.0, 0.5, 1.0, 0.55, 0.1])
    assert [schedule(step) for step in (11, 12, 14)] == pytest.approx([0.25 * (1 + math.cos(math.pi / 4)), 0.25, 0.0])


def test_linear_cycles_fall_along_the_line_of_the_whole_cycle() -> None:
    schedule = LambdaLinearScheduler(**CYCLES)  # type: ignore[arg-type]
    assert [schedule(step) for step in (0, 1, 2, 5, 10)] == pytest.approx([0.0, 0.5, 0.82, 0.55, 0.1])
    assert [schedule(step) for step in (11, 12, 14)] == pytest.approx([0.375, 0.25, 0.0])


@pytest.mark.parametrize("kind", [LambdaLinearScheduler, LambdaWarmUpCosineScheduler2])
def test_past_the_last_cycle_the_last_factor_stays(kind: type[LambdaWarmUpCosineScheduler2]) -> None:
    schedule = kind([0], [0.3], [1.0], [1.0], [5])
    assert schedule(5) == schedule(6) == schedule(10**9) == pytest.approx(0.3)


def test_a_cycle_that_is_all_warm_up_ends_at_its_minimum() -> None:
    assert LambdaWarmUpCosineScheduler2([5], [0.3], [1.0], [0.0], [5])(5) == pytest.approx(0.3)


@pytest.mark.parametrize("change", [{"f_max": [1.0]}, {name: [] for name in CYCLES}], ids=["uneven", "empty"])
def test_lists_that_do_not_fit_together_are_a_fault(change: dict[str, list[float]]) -> None:
    with pytest.raises(Fault) as fault:
        LambdaLinearScheduler(**(CYCLES | change))  # type: ignore[arg-type]
    assert fault.value.id == "CFG03"
    assert "f_max has" in fault.value.why


def test_a_verbose_schedule_logs_at_its_interval(caplog: pytest.LogCaptureFixture) -> None:
    schedule = LambdaLinearScheduler([0], [1.0], [1.0], [1.0], [100], verbosity_interval=4)
    with caplog.at_level(logging.INFO, logger="ldm.lr_scheduler"):
        for step in range(9):
            schedule(step)
    told = [record.getMessage().split(":")[0] for record in caplog.records]
    assert told == ["optimizer step 0", "optimizer step 4", "optimizer step 8"]


@pytest.mark.parametrize("schedule", ALL, ids=of_class)
def test_a_schedule_survives_pickling(schedule: Callable[[int], float]) -> None:
    copy = pickle.loads(pickle.dumps(schedule))
    assert [copy(step) for step in range(30)] == [schedule(step) for step in range(30)]


@pytest.mark.parametrize("schedule", ALL, ids=of_class)
def test_a_schedule_drives_torchs_lambda_schedule(schedule: Callable[[int], float]) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    lambdas = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        lambdas.step()
    assert rates == pytest.approx([0.5 * schedule(step) for step in range(5)])


def test_restarts_begin_anew_at_the_full_rate_and_end_at_the_minimum() -> None:
    schedule = WarmupRestarts(total_steps=42, warm_up_steps=2, cycles=4, minimum=0.2)
    assert [schedule(step) for step in (1, 2, 7, 12, 17, 22)] == pytest.approx([2 / 3, 1.0, 0.6, 1.0, 0.6, 1.0])
    assert schedule(11) < 0.25 and schedule(42) == schedule(99) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="cycles"):
        WarmupRestarts(10, cycles=0)


def test_rex_falls_as_its_formula_says() -> None:
    schedule = WarmupRex(total_steps=12, warm_up_steps=2)
    assert [schedule(step) for step in (0, 2, 7, 12, 13)] == pytest.approx([1 / 3, 1.0, 0.5 / 0.75, 0.0, 0.0])
