"""What a rehearsal is measured by."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lun.probe.meter import ProbeMeter, Readings


def test_the_first_step_does_not_count_where_there_are_others() -> None:
    assert Readings(steps=[9.0, 1.0, 3.0]).seconds_a_step == 2.0
    assert Readings(steps=[9.0]).seconds_a_step == 9.0 and Readings().seconds_a_step == 0.0


def test_a_step_is_all_of_its_micro_batches_without_what_lies_between(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 11.0, 20.0, 22.0, 30.0, 33.0, 40.0, 44.0, 50.0, 51.5])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    meter, model = ProbeMeter(), SimpleNamespace(device=torch.device("cpu"))
    trainer: Any = SimpleNamespace(accumulate_grad_batches=2)
    for number in range(4):
        meter.on_train_batch_start(trainer, model, None, number)  # type: ignore[arg-type]
        meter.on_train_batch_end(trainer, model, None, None, number)  # type: ignore[arg-type]
    meter.on_validation_batch_start(trainer, model, None, 0)  # type: ignore[arg-type]
    meter.on_validation_batch_end(trainer, model, None, None, 0)  # type: ignore[arg-type]
    readings = meter.readings
    assert (readings.before, readings.steps, readings.validation) == (10.0, [3.0, 7.0], [1.5])
    assert readings.peaks == {} and readings.resident > 0
