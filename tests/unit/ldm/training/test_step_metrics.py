"""Numbers of steps: means of a window, and the latest values."""

import torch

from ldm.training.step_metrics import StepMetrics


def test_a_window_is_the_mean_of_its_micro_batches_and_the_next_begins_anew() -> None:
    metrics = StepMetrics()
    for value in (1.0, 4.0):
        metrics.add({"loss": torch.tensor(value, requires_grad=True)})
    assert metrics.close_window() == {"loss": torch.tensor(2.5)}
    metrics.add({"loss": torch.tensor(7.0)})
    assert metrics.close_window() == {"loss": torch.tensor(7.0)}


def test_the_latest_value_of_each_name_stays_until_it_is_told_anew() -> None:
    metrics = StepMetrics()
    metrics.keep({"loss": torch.tensor(1.0, dtype=torch.bfloat16), "rate": 0.1})
    metrics.keep({"loss": torch.tensor(2.0, dtype=torch.bfloat16)})
    latest = metrics.latest()
    assert latest == {"loss": torch.tensor(2.0), "rate": torch.tensor(0.1)}
    assert {value.dtype for value in latest.values()} == {torch.float32}
    assert list(metrics.read().items()) == [("loss", 2.0), ("rate", 0.1)]
