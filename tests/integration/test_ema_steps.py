"""What the average of a whole run counts as a step: windows, whatever they are made of and whatever became of them."""

import functools
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from support.runs import load, newest_run
from torch import Tensor

from ldm.ema.lit_ema import LitEma
from ldm.ema.profiles import ConstantDecay

STEPS = 6


def flat(state: dict[str, Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten().double() for tensor in state.values()])


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, Tensor, Tensor]]:
    """(step, weights, their average) after each update of whatever runs."""
    updates: list[tuple[int, Tensor, Tensor]] = []
    update = LitEma.update

    def watched(self: LitEma, step: int) -> None:
        update(self, step)
        updates.append((step, flat(self.raw_state()), flat(self.averaged_state())))

    monkeypatch.setattr(LitEma, "update", watched)
    return updates


def settings(**others: Any) -> list[str]:
    """Every step averaged, nothing clipped, no dropout, which is drawn by micro-batch."""
    given = {
        "lightning.trainer.max_steps": STEPS,
        "lightning.trainer.gradient_clip_val": None,
        "model.params.unet_config.params.dropout": 0.0,
        "model.params.ema_config.params.update_every": 1,
    }
    return ["-t", *(f"{key}={json.dumps(value)}" for key, value in (given | others).items())]


def test_four_accumulated_pictures_average_like_a_batch_of_four(lun: Callable[..., int], seen: list[Any]) -> None:
    for batch, accumulate in ((4, 1), (1, 4)):
        sizes = {"data.params.batch_size": batch, "lightning.trainer.accumulate_grad_batches": accumulate}
        assert lun("-n", f"batch{batch}", *settings(**sizes)) == 0
    assert [step for step, _, _ in seen] == 2 * list(range(1, STEPS + 1))
    (_, first, _), (_, _, whole), (_, _, pieces) = seen[0], seen[STEPS - 1], seen[-1]
    assert (whole - pieces).norm() < 0.02 * (whole - first).norm()


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_the_scaler_skips_counts_and_averages_the_weights_as_they_stayed(
    lun: Callable[..., int], seen: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fused: bool
) -> None:
    """torch steps fused optimizers, which then do nothing, and others not at all: neither may make a difference."""
    scaler = functools.partial(torch.amp.GradScaler, backoff_factor=2.0**-22)
    monkeypatch.setattr(torch.amp, "GradScaler", scaler)
    precision = {"target": "lun.strategies.precision.Fp16Mixed", "params": {"init_scale": 2.0**60}}
    recipe = {"target": "torch.optim.AdamW", "params": {"fused": fused}}
    half = {"lightning.trainer.precision": precision, "model.params.optimizer_config": recipe}
    assert lun("-n", "skips", *settings(**half)) == 0

    checkpoint = load(newest_run(tmp_path / "logs") / "checkpoints/last.ckpt")
    (optimizer,) = checkpoint["optimizer_states"]
    moved = sum(not torch.equal(before, after) for (_, before, _), (_, after, _) in pairwise(seen))
    assert {int(entry["step"]) for entry in optimizer["state"].values()} == {moved}
    assert 0 < moved < STEPS - 1  # the first step is among those that were skipped
    assert int(checkpoint["state_dict"]["model_ema.num_updates"]) == checkpoint["global_step"] == STEPS
    law, expected = ConstantDecay(0.9), seen[0][1]
    for step, weights, average in seen:
        kept = torch.tensor(law.log_beta(step - 1, step)).exp().item()
        expected = weights + kept * (expected - weights)
        torch.testing.assert_close(average, expected, rtol=1e-5, atol=1e-7)
