"""What the host asks a device for in steady state, counted on a device that is none."""

import sys
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.accelerators import CPUAccelerator
from lightning.pytorch.strategies import SingleDeviceStrategy
from support.pretend_device import DEVICE, Built, PretendDevice
from support.runs import TINY

import lun.callbacks.divergence
from ldm.lightning_classes import as_lightning
from lun.callbacks import (
    Divergence,
    GradientNorms,
    LossByNoiseLevel,
    LossBySize,
    LossByTag,
    SmoothedProgressBar,
    Throughput,
    WeightChanges,
)
from lun.cli import parser
from lun.loop.position_callback import FollowPosition
from lun.run.lightning_trainer import ProgramTrainer
from lun.run.session import Session
from lun.run.settings import look_at_settings


class Accelerator(CPUAccelerator):
    def setup_device(self, device: torch.device) -> None:
        """Any will do."""


class Counts(Callback):
    """What had been read by the end of each step."""

    def __init__(self, device: PretendDevice) -> None:
        self.device = device
        self.after: list[Counter[str]] = []

    def on_train_batch_end(self, *_: Any) -> None:
        self.after.append(self.device.reads.copy())


@pytest.mark.parametrize(
    ("optimizer", "reads"),
    [
        ("{target: torch.optim.AdamW, params: {fused: true}}", {}),
        ("{target: torch.optim.SGD, params: {}}", {"lun/callbacks/divergence.py": 3}),
    ],
    ids=["leaves out bad steps itself", "has to be kept from them"],
)
def test_between_two_logs_the_device_is_asked_at_most_whether_a_step_may_be_taken(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str, reads: dict[str, int]
) -> None:
    monkeypatch.setenv("LUN_THREADS", "1")
    monkeypatch.setattr(lun.callbacks.divergence, "READ_LATE", (DEVICE.type,))
    adam = sys.modules[torch.optim.Adam.__module__]
    monkeypatch.setattr(adam, "_device_dtype_check_for_fused", lambda *_: None)
    words = ["--base", str(TINY), "--data_root", str(pictures), "-t"]
    changed = ["model.params.use_ema=false", f"model.params.optimizer_config={optimizer}"]
    settings, faults = look_at_settings(parser.parse([*words, *changed]), None)
    assert not faults
    session = Session.prepare(settings, parser.parse(words), None)
    # autocast, which nothing here is under, knows no such device
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *_: False)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    device = PretendDevice()
    counts = Counts(device)
    numbers = [LossByNoiseLevel(), LossBySize(), LossByTag(["red"]), GradientNorms(), WeightChanges()]
    quiet = {"logger": False, "enable_checkpointing": False, "enable_model_summary": False}
    trainer = ProgramTrainer(
        **quiet,
        strategy=SingleDeviceStrategy(DEVICE, Accelerator()),
        max_steps=4,
        max_epochs=-1,
        gradient_clip_val=1.0,
        limit_val_batches=0,
        callbacks=[
            as_lightning(one)
            for one in (FollowPosition(), Divergence(), SmoothedProgressBar(), Throughput(), *numbers, counts)
        ],
        default_root_dir=tmp_path,
    )
    with Built(), device:
        trainer.fit(as_lightning(session.model), datamodule=as_lightning(session.data))
    first, *_, last = counts.after
    assert last - first == reads
