"""What a start settles once: a value that nothing changes afterwards."""

from copy import deepcopy
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from lun.run.length import Length
from lun.run.resolved import ResolvedRun, resolve, window_of
from lun.strategies.execution import Execution, Ranks
from lun.strategies.precision import Fp32

TRAINER = {"accumulate_grad_batches": 3}
EXECUTION = Execution(TRAINER, "auto", Fp32(), "cpu", Ranks(count=2, own=1))
CONFIG: dict[str, Any] = {
    "model": {
        "base_learning_rate": 1e-5,
        "scale_lr": "linear",
        "params": {
            "scheduler_config": {"target": "ldm.lr_scheduler.WarmupCosine"},
            "training_config": {
                "target": "ldm.training.rules.Rules",
                "params": {"rules": {"one": {"match": "*", "schedule": {"target": "ldm.lr_scheduler.WarmupCosine"}}}},
            },
        },
    }
}


def settled() -> ResolvedRun:
    return resolve(CONFIG, EXECUTION, window_of(EXECUTION, batch_size=4), Length(900, 100), seed=7)


def test_seed_and_horizon_are_filled_into_a_configuration_of_its_own() -> None:
    before = deepcopy(CONFIG)
    config = settled().config
    params = config["model"]["params"]
    assert config["seed"] == 7 and params["scheduler_config"]["params"] == {"total_steps": 900}
    (rule,) = params["training_config"]["params"]["rules"].values()
    assert rule["schedule"]["params"] == {"total_steps": 900}
    assert before == CONFIG


def test_the_window_is_that_of_this_rank() -> None:
    window = settled().window
    assert (window.global_batch, window.rank, window.world_size) == (4 * 3 * 2, 1, 2)


def test_the_model_is_told_what_was_settled() -> None:
    context = settled().context(resumed=True)
    assert (context.seed, context.max_steps, context.resumed, context.trainer) == (7, 900, True, TRAINER)
    assert context.learning_rate == pytest.approx(1e-5 * 24)


@pytest.mark.parametrize(("device", "fused"), [("mps", False), ("cpu", True), ("cuda", True)])
def test_the_default_optimizer_is_fused_where_it_can_be(device: str, fused: bool) -> None:
    execution = replace(EXECUTION, device=device)
    settled = resolve(CONFIG, execution, window_of(execution, batch_size=4), Length(900, 100), seed=7)
    assert settled.context(resumed=False).fused is fused


@pytest.mark.parametrize("name", ["seed", "learning_rate", "config"])
def test_nothing_is_set_afterwards(name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(settled(), name, None)
