"""DeepSpeed's own loss scaler, without an engine: a resume goes on as if there had been none."""

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from lun.strategies.precision import Fp16Mixed
from lun.strategies.zero.autocast import ZeroPrecision
from lun.strategies.zero.loss_scaler import load_scale_state, scale_state

OVERFLOWS = [9, 10, 14, 15, 31]
STEPS = 48


@pytest.fixture
def scaler(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    pytest.importorskip("deepspeed")
    monkeypatch.setitem(os.environ, "DS_ACCELERATOR", "cpu")
    from deepspeed.runtime.fp16 import loss_scaler

    monkeypatch.setattr(loss_scaler.dist, "get_rank", lambda: 1)
    return lambda: loss_scaler.DynamicLossScaler(2.0**16, 5, 1.0, 2, False)


def scales(scaler: Any, first: int) -> list[float]:
    """After each step from `first` on."""
    found = []
    for step in range(first, STEPS):
        scaler.update_scale(step in OVERFLOWS)
        found.append(scaler.cur_scale)
    return found


@pytest.mark.parametrize("stop", range(1, STEPS, 3))
def test_a_resume_goes_on_with_scale_growth_and_hysteresis(scaler: Callable[[], Any], stop: int) -> None:
    straight = scales(scaler(), 0)
    assert len(set(straight)) > 3
    before, after = scaler(), scaler()
    for step in range(stop):
        before.update_scale(step in OVERFLOWS)
    plugins = [ZeroPrecision(Fp16Mixed(), "cpu") for _ in range(2)]
    checkpoint: dict[str, Any] = {}
    for plugin, own in zip(plugins, (before, after), strict=True):
        plugin.loss_scaler = own
    plugins[0].on_save_checkpoint(checkpoint)
    plugins[1].on_load_checkpoint(checkpoint)
    assert scales(after, stop) == straight[stop:]


def test_torch_takes_the_scale_over_and_gives_it_back(scaler: Callable[[], Any]) -> None:
    own, again = scaler(), scaler()
    own.cur_scale, own.cur_iter, own.last_overflow_iter = 512.0, 20, 14
    torchs = torch.amp.GradScaler("cpu")
    torchs.load_state_dict(scale_state(own))
    assert torchs.get_scale() == 512.0 and torchs.state_dict()["_growth_tracker"] < torchs.get_growth_interval() == 5
    load_scale_state(again, torchs.state_dict())
    assert again.cur_scale == 512.0


def test_other_precisions_store_no_scale() -> None:
    checkpoint: dict[str, Any] = {}
    ZeroPrecision(Fp16Mixed(), "cpu").on_save_checkpoint(checkpoint)
    assert checkpoint == {}
