"""The learning rate of every step, also over a resume with another schedule, against closed forms."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from ldm.errors import Fault
from ldm.lightning_classes import as_lightning
from ldm.models.base import TrainedModel
from ldm.models.rehearsal import warn_if_finished
from ldm.training.rules import Multiple, Rule, matching
from ldm.training.schedule import factors_of, with_horizon

RATE, MULTIPLE, CUT, END = 0.02, 0.25, 4, 9
TORCH = "torch.optim.lr_scheduler."


def ramp(n: int, warm: int) -> float:
    return min(1.0, (n + 1) / (warm + 1))


def share(n: int, begin: int, end: int) -> float:
    return min(1.0, max(0.0, (n - begin) / (end - begin)))


def cosine(x: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * x))


SCHEDULES: dict[str, tuple[dict[str, Any] | None, Any]] = {
    "none": (None, lambda n, rate: rate),
    "warm-up": (
        {"target": "ldm.lr_scheduler.WarmupConstant", "params": {"warm_up_steps": 5}},
        lambda n, rate: rate * ramp(n, 5),
    ),
    "cosine, finished at the cut": (
        {"target": "ldm.lr_scheduler.WarmupCosine", "params": {"total_steps": CUT}},
        lambda n, rate: rate * cosine(share(n, 0, CUT)),
    ),
    "line": (
        {"target": "ldm.lr_scheduler.WarmupLinear", "params": {"total_steps": END, "warm_up_steps": 2}},
        lambda n, rate: rate * (ramp(n, 2) if n < 2 else 1 - share(n, 2, END)),
    ),
    "torch's steps": (
        {"target": TORCH + "StepLR", "params": {"step_size": 3, "gamma": 0.5}},
        lambda n, rate: rate * 0.5 ** (n // 3),
    ),
    "torch's cosine to a rate, not to a factor": (
        {"target": TORCH + "CosineAnnealingLR", "params": {"T_max": END, "eta_min": 0.001}},
        lambda n, rate: 0.001 + (rate - 0.001) * cosine(n / END),
    ),
    "two of torch's, one after the other": (
        {
            "target": TORCH + "SequentialLR",
            "params": {
                "schedulers": [
                    {"target": TORCH + "LinearLR", "params": {"start_factor": 0.5, "total_iters": 2}},
                    {"target": TORCH + "ExponentialLR", "params": {"gamma": 0.9}},
                ],
                "milestones": [3],
            },
        },
        lambda n, rate: rate * (0.5 + 0.5 * share(n, 0, 2) if n < 3 else 0.9 ** (n - 3)),
    ),
}


class Model(TrainedModel):
    """Two parts, one at a rate of its own."""

    def __init__(self, schedule: dict[str, Any] | None, rate: float = RATE) -> None:
        super().__init__(scheduler_config=schedule, use_ema=False)
        self.learning_rate = rate
        self.one, self.two = nn.Linear(1, 1), nn.Linear(1, 1)
        self.settle_training()

    def default_rules(self) -> list[Rule]:
        return [Rule("two", matching("two.*"), {"lr": Multiple(MULTIPLE)})]


def started(schedule: dict[str, Any] | None, stored: dict[str, Any] | None = None, rate: float = RATE) -> Model:
    """A model whose training begins, in the order in which Lightning restores."""
    model = as_lightning(Model(schedule, rate))
    configured = model.configure_optimizers()
    optimizer, moves = configured["optimizer"], configured.get("lr_scheduler")
    schedules = [SimpleNamespace(scheduler=moves["scheduler"])] if moves else []
    model._trainer = SimpleNamespace(optimizers=[optimizer], lr_scheduler_configs=schedules)  # type: ignore[assignment]
    if stored:
        model._stored_settings, model.position.step = stored["settings"], stored["step"]
        optimizer.load_state_dict(stored["optimizer"])
        for config, state in zip(schedules, stored["schedules"], strict=False):
            config.scheduler.load_state_dict(state)
    model.on_train_start()
    return model


def trained(model: Model, until: int) -> list[tuple[float, float]]:
    """Both groups' rates of each step."""
    trainer: Any = model._trainer
    rates = []
    while model.position.step < until:
        one, two = (group["lr"] for group in trainer.optimizers[0].param_groups)
        rates.append((one, two))
        trainer.optimizers[0].step()
        for config in trainer.lr_scheduler_configs:
            config.scheduler.step()
        model.position.advance(1)
    return rates


def stored(model: Model) -> dict[str, Any]:
    trainer: Any = model._trainer
    return {
        "step": model.position.step,
        "settings": model._settings,
        "optimizer": trainer.optimizers[0].state_dict(),
        "schedules": [config.scheduler.state_dict() for config in trainer.lr_scheduler_configs],
    }


@pytest.mark.parametrize(("old", "new"), list(itertools.product(SCHEDULES, SCHEDULES)))
def test_at_a_resume_the_rate_is_that_of_the_new_schedule_at_the_runs_own_step(old: str, new: str) -> None:
    first = started(SCHEDULES[old][0])
    rates = trained(first, CUT)
    rates += trained(started(SCHEDULES[new][0], stored(first), 2 * RATE), END)
    for step, found in enumerate(rates):
        law, rate = (SCHEDULES[old][1], RATE) if step < CUT else (SCHEDULES[new][1], 2 * RATE)
        assert found == pytest.approx((law(step, rate), law(step, rate * MULTIPLE)), rel=1e-9, abs=1e-15), step


def test_a_state_without_settings_does_not_bring_its_rate_either() -> None:
    first = started(SCHEDULES["cosine, finished at the cut"][0])
    trained(first, CUT)
    assert trained(started(None, stored(first) | {"settings": []}), CUT + 1) == [(RATE, RATE * MULTIPLE)]


def test_torchs_schedules_are_functions_of_the_step_back_and_forth() -> None:
    factors = factors_of({"target": TORCH + "ExponentialLR", "params": {"gamma": 0.5}}, [0.1, 0.0])
    assert [factors(step) for step in (3, 1, 2)] == [pytest.approx([0.5**step, 0.0]) for step in (3, 1, 2)]


@pytest.mark.parametrize(
    ("target", "params", "says"),
    [
        ("OneCycleLR", {"max_lr": 0.1, "total_steps": 9}, "cycle_momentum=false"),
        ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.2}, "cycle_momentum=false"),
        ("ReduceLROnPlateau", {}, "the step alone"),
    ],
)
def test_what_does_more_than_a_rate_by_the_step_is_refused(target: str, params: dict[str, Any], says: str) -> None:
    with pytest.raises(Fault, match="CFG08") as refused:
        factors_of({"target": TORCH + target, "params": params}, [0.1])
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("step", "until", "says"), [(4, 9, "from step 4 of 9"), (0, 9, "from step 4 of 9"), (0, 4, "")]
)
def test_a_schedule_that_ends_at_0_before_the_run_does_is_told(
    caplog: pytest.LogCaptureFixture, step: int, until: int, says: str
) -> None:
    warn_if_finished(started(SCHEDULES["cosine, finished at the cut"][0]), step, until)
    told = " ".join(caplog.messages)
    assert says in told and bool(told) is bool(says)
    assert not told or f"scheduler_config.params.total_steps={until}" in told


def test_a_rate_that_never_falls_to_0_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    for name in ("none", "warm-up", "torch's steps"):
        warn_if_finished(started(SCHEDULES[name][0]), 0, 50)
    assert not caplog.messages and torch.is_grad_enabled()


# The horizon


def test_a_schedule_gets_the_length_of_the_run_as_its_horizon_and_the_configuration_stays_as_it_is() -> None:
    recipe = {"target": "ldm.lr_scheduler.WarmupCosine", "params": {"warm_up_steps": 10}}
    assert with_horizon(recipe, 900)["params"] == {"warm_up_steps": 10, "total_steps": 900}
    assert recipe["params"] == {"warm_up_steps": 10}


def test_a_horizon_that_is_written_down_stays() -> None:
    recipe = {"target": "ldm.lr_scheduler.WarmupCosine", "params": {"total_steps": 500}}
    assert with_horizon(recipe, 900) == recipe


def test_a_schedule_without_a_horizon_is_left_alone() -> None:
    recipe = {"target": "ldm.lr_scheduler.WarmupConstant", "params": {"warm_up_steps": 10}}
    assert with_horizon(recipe, 900) == recipe


def test_a_schedule_that_needs_a_horizon_cannot_go_with_a_time_limit_alone() -> None:
    with pytest.raises(Fault, match="needs to know how long the run is"):
        with_horizon({"target": "ldm.lr_scheduler.WarmupCosine"}, -1)
