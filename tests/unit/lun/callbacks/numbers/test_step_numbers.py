"""Norms of gradients and changes of weights, by part, on a network of a few numbers."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD

from ldm.errors import Fault
from ldm.lightning_classes import as_lightning
from ldm.training.clipping import GradientNorm, KnownNorm
from ldm.training.split_weights import SplitWeights
from lun.callbacks import GradientNorms, WeightChanges


class Logger:
    def __init__(self) -> None:
        self.told: dict[int, dict[str, float]] = {}

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.told[step] = metrics


class Run:
    """A model of two parts, stepped by hand with gradients of our choice."""

    def __init__(self, callback: Any, every: int = 1, dtype: torch.dtype = torch.float32, rate: float = 0.5) -> None:
        weights = {"unet.down.0.weight": torch.full((4,), 2.0), "unet.up.weight": torch.full((2, 2), 4.0)}
        self.weights = {name: nn.Parameter(weight.to(dtype)) for name, weight in weights.items()}
        self.optimizer = SGD(self.weights.values(), lr=rate)
        self.logger = Logger()
        strategy = SimpleNamespace(handles_gradient_accumulation=False)
        self.trainer: Any = SimpleNamespace(log_every_n_steps=every, strategy=strategy, world_size=1)
        vars(self.trainer).update(optimizers=[self.optimizer], loggers=[self.logger], gradient_clip_algorithm=None)
        self.model: Any = SimpleNamespace(position=SimpleNamespace(step=0), gradient_norm=GradientNorm(), device="cpu")
        vars(self.model).update(
            split_weights=SplitWeights(),
            optimized_weights=lambda: self.weights,
            clips_at=lambda: 5.0,
            trainer=self.trainer,
        )
        self.callback = as_lightning(callback)
        callback.setup(self.trainer, self.model, "fit")
        callback.on_train_start(self.trainer, self.model)

    def step(self, *gradients: float, known: str = "") -> dict[str, float]:
        for weight, value in zip(self.weights.values(), gradients, strict=True):
            weight.grad = torch.full_like(weight, value)
        norm = math.sqrt(4 * sum(value**2 for value in gradients))
        value = norm if known == "read" else None
        self.model.gradient_norm.known = KnownNorm(self.optimizer, torch.tensor(norm), value) if known else None
        self.callback.on_before_backward(self.trainer, self.model, torch.zeros(()))
        self.callback.on_before_optimizer_step(self.trainer, self.model, self.optimizer)
        self.optimizer.step()
        self.model.position.step += 1
        for _ in range(2):  # two micro-batches end at this step
            self.callback.on_train_batch_end(self.trainer, self.model, None, None, 0)
        return self.logger.told.get(self.model.position.step, {})


@pytest.mark.parametrize("known", ["read", "on its device", ""])
def test_norms_before_clipping_are_those_of_all_steps_since_the_last_log(known: str) -> None:
    run = Run(GradientNorms(), every=2)
    assert run.step(1.5, 2.0, known=known) == {}
    norms = {"train/grad_norm": 7.5, "train/grad_norm_max": 10.0, "train/grad_clipped": 0.5}
    parts = {"grad_norm/unet.down": 6.0, "grad_norm/unet.up": 8.0}
    assert run.step(3.0, 4.0, known=known) == pytest.approx(norms | parts)
    run.step(0.0, 0.0)
    assert run.step(0.0, math.inf)["train/grad_norm"] == 0


def test_a_step_that_was_left_out_and_has_no_gradients_is_not_counted() -> None:
    run = Run(GradientNorms(words=3))
    run.optimizer.zero_grad()
    run.callback.on_before_optimizer_step(run.trainer, run.model, run.optimizer)
    assert "grad_norm/unet.down.0" in run.step(3.0, 4.0)


def test_a_norm_that_is_known_is_told_though_no_gradients_are_left() -> None:
    run = Run(GradientNorms())
    run.optimizer.zero_grad()
    run.model.gradient_norm.known = KnownNorm(run.optimizer, torch.tensor(5.0), 5.0)
    run.callback.on_before_optimizer_step(run.trainer, run.model, run.optimizer)
    run.model.position.step += 1
    run.callback.on_train_batch_end(run.trainer, run.model, None, None, 0)
    assert run.logger.told[1]["train/grad_norm"] == 5.0


def test_a_change_that_bfloat16_does_not_show_is_seen_in_the_master() -> None:
    run = Run(WeightChanges())
    for weight in run.weights.values():
        run.model.split_weights.take(weight)
    run.callback.on_before_backward(run.trainer, run.model, torch.zeros(()))
    for weight in run.weights.values():
        weight.grad = torch.full_like(weight, 2.0**-12)
    run.model.split_weights.step(run.optimizer)
    run.model.position.step += 1
    run.callback.on_train_batch_end(run.trainer, run.model, None, None, 0)
    assert run.logger.told[1]["moved/unet.down"] == 1.0


def test_a_change_is_compared_with_the_weights_of_its_part() -> None:
    assert Run(WeightChanges()).step(0.4, 0.0) == pytest.approx(
        {"update_ratio/unet.down": 0.1, "moved/unet.down": 1.0, "update_ratio/unet.up": 0.0, "moved/unet.up": 0.0}
    )


def test_changes_that_bfloat16_rounds_away_did_not_move() -> None:
    run = Run(WeightChanges(), dtype=torch.bfloat16, rate=1e-3)
    told = run.step(1.0, 100.0)
    assert told["moved/unet.down"] == 0.0 and told["moved/unet.up"] == 1.0


def test_of_a_large_part_evenly_spread_weights_stand_for_all() -> None:
    run = Run(WeightChanges())
    (name, *_) = run.weights
    run.weights[name] = nn.Parameter(torch.arange(1.0, 1 << 18))
    run.optimizer.add_param_group({"params": [run.weights[name]]})
    run.callback.on_train_start(run.trainer, run.model)
    assert run.step(1.0, 1.0)["update_ratio/unet.down"] == pytest.approx(
        0.5 * math.sqrt((1 << 18) / (torch.arange(1.0, 1 << 18).double() ** 2).sum()), rel=1e-3
    )


def test_what_deepspeed_keeps_to_itself_is_refused() -> None:
    trainer: Any = SimpleNamespace(log_every_n_steps=1, strategy=SimpleNamespace(handles_gradient_accumulation=True))
    with pytest.raises(Fault, match="GradientNorms has no effect under DeepSpeed"):
        GradientNorms().setup(trainer, SimpleNamespace(), "fit")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [GradientNorms, WeightChanges])
def test_parts_of_no_words_are_refused(kind: Any) -> None:
    with pytest.raises(Fault, match="words of"):
        kind(words=0)
