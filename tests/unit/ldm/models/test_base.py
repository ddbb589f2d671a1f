"""How a trained model drives its EMA: after each window, and with a gate before each optimizer step."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ldm.lightning_classes import as_lightning
from ldm.models.base import TrainedModel
from ldm.models.pixels import for_device


class Recorder:
    """Stands for an EMA whose weights come from an accelerator."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.stall_ms: float | None = 12.0

    def update(self, step: int) -> None:
        self.calls.append(step)

    def gate(self) -> None:
        self.calls.append("gate")


def windows(model: TrainedModel, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    model.model_ema = recorder  # type: ignore[assignment]
    monkeypatch.setattr(model, "log_step", lambda: recorder.calls.append("log"))


def test_the_ema_is_gated_before_and_told_after_each_optimizer_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model, recorder = TrainedModel(), Recorder()
    windows(model, recorder, monkeypatch)
    for _ in range(2):
        model.on_before_optimizer_step(torch.optim.SGD([torch.zeros(1)], lr=0.1))
        model.window_completed(4)
    assert recorder.calls == ["gate", 1, "log", "gate", 2, "log"]
    assert model.latest_metrics() == {"ema/stall_ms": 12.0}


def test_an_ema_beside_nothing_logs_no_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    model, recorder = TrainedModel(), Recorder()
    windows(model, recorder, monkeypatch)
    recorder.stall_ms = None
    model.window_completed(1)
    assert recorder.calls == [1, "log"] and model.latest_metrics() == {}


@pytest.mark.parametrize("strategy_accumulates", [False, True])
def test_gradients_are_freed_as_soon_as_the_optimizer_has_used_them(strategy_accumulates: bool) -> None:
    """Not where a strategy accumulates by itself: it comes by for every micro-batch of a window."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def closure() -> torch.Tensor:
        loss = weight.sum()
        loss.backward()
        return loss

    model = as_lightning(TrainedModel())
    strategy: Any = SimpleNamespace(handles_gradient_accumulation=strategy_accumulates)
    model._trainer = SimpleNamespace(strategy=strategy)  # type: ignore[assignment]
    model.optimizer_step(0, 0, optimizer, closure)
    assert (weight.grad is None) is not strategy_accumulates
    assert torch.allclose(weight, torch.full((2,), 0.9))


def test_losses_of_uneven_micro_batches_on_several_ranks_add_up_to_the_mean_over_the_window() -> None:
    losses = torch.arange(12.0).square()
    micro_batches = [[losses[:3], losses[3:4]], [losses[4:6], losses[6:8]], [losses[8:9], losses[9:]]]  # of three ranks
    window = SimpleNamespace(
        datamodule=SimpleNamespace(global_batch=12), accumulate_grad_batches=2, world_size=len(micro_batches)
    )
    model: Any = SimpleNamespace(trainer=window)
    parts = [TrainedModel.window_mean(model, micro) for rank in micro_batches for micro in rank]
    # Lightning divides each micro-batch by their number, and the strategy averages over the ranks.
    torch.testing.assert_close(sum(parts) / 2 / len(micro_batches), losses.mean())


def test_an_average_of_joined_weights_goes_back_into_each_of_them() -> None:
    weights = {name: torch.zeros(2, 2) for name in ("model.q", "model.k")} | {"model.b": torch.zeros(3)}
    weights["model.w"] = torch.zeros(2, 3, 2, 2).to(memory_format=torch.channels_last)

    def on_disk(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"qk": torch.cat([state["model.q"], state["model.k"]]), "b": state["model.b"], "w": state["model.w"]}

    owner: Any = SimpleNamespace(trained_parameters=weights.items, _ema_names=on_disk)
    stored = {"qk": torch.arange(8.0).view(4, 2), "w": torch.arange(24.0).view(2, 3, 2, 2)}
    count = TrainedModel.take_average(owner, {f"model_ema.{name}": value for name, value in stored.items()})
    assert count == 2 and torch.equal(weights["model.w"], stored["w"])
    assert torch.equal(torch.cat([weights["model.q"], weights["model.k"]]), stored["qk"])
    assert not weights["model.b"].any()


def test_what_the_host_draws_by_stays_on_the_host() -> None:
    batch = {"image": torch.zeros(2, 4, 4, 3), "weight": torch.ones(2), "slot": torch.tensor([3, 4])}
    batch |= {"crop": torch.zeros(2, 2), "caption": ["a", "b"]}
    assert for_device(batch).keys() == {"image", "weight"}
    moved = TrainedModel().transfer_batch_to_device(batch, torch.device("meta"), 0)
    devices = {name: value.device.type for name, value in moved.items() if isinstance(value, torch.Tensor)}
    assert devices == {"image": "meta", "weight": "meta", "slot": "cpu", "crop": "cpu"}
    assert moved["caption"] == ["a", "b"]
