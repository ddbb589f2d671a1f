import logging
import shutil
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ldm.errors import Fault
from ldm.models.base_weights import BaseWeights
from ldm.training.split_weights import SplitWeights
from lun.callbacks import Checkpoint, DiskSpace, FinalCheckpoint
from lun.callbacks.space import files_kept
from lun.checkpoints.atomic import AtomicIO
from lun.checkpoints.memory_estimate import amount, held, memory_estimate

SIZE = 3 * 4 * 4  # four trained numbers of four bytes, and AdamW's two moments


@pytest.fixture
def room(monkeypatch):
    def set_to(size: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=size))

    return set_to


def test_a_disk_on_which_no_checkpoint_fits_is_a_fault_before_the_first_step(training, room):
    room(SIZE - 1)
    tiny = training(3, FinalCheckpoint(), DiskSpace())
    with pytest.raises(Fault, match="DSK01.*one needs 48 bytes, 47 bytes are free"):
        tiny.fit()
    assert tiny.module.seen == []


@pytest.mark.parametrize(("free", "warned"), [(6 * SIZE, False), (6 * SIZE - 1, True)])
def test_a_disk_that_the_run_will_fill_is_told(training, room, caplog, monkeypatch, free, warned):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(AtomicIO, "save_checkpoint", lambda self, checkpoint, path, storage_options=None: None)
    room(free)
    keep_all = Checkpoint("{step}", every_n_train_steps=2, save_top_k=-1)
    training(9, keep_all, FinalCheckpoint(), DiskSpace()).fit()  # 4 of them, last.ckpt, and one while it is written
    assert ("warning[DSK01]: the checkpoints of this run need about 288 bytes more" in caplog.text) is warned
    assert ("a checkpoint takes about 48 bytes" in caplog.text) is not warned


@pytest.mark.parametrize(
    ("saver", "steps", "count"),
    [
        (Checkpoint("every", every_n_train_steps=2000), 10**5, 2),
        (Checkpoint("every", every_n_train_steps=2000, every_minutes=15), 100, 2),
        (Checkpoint("every", every_n_train_steps=2000), 100, 1),
        (Checkpoint("{step}", every_n_train_steps=1000, save_top_k=-1), 5000, 6),
        (Checkpoint("{step}", every_n_train_steps=1000, save_top_k=3), 5000, 4),
        (Checkpoint("{step}", monitor="val/loss", save_top_k=3), 5000, 4),
        (Checkpoint("{step}", every_minutes=5, save_top_k=-1), None, 2),
    ],
)
def test_how_many_files_there_will_be_follows_from_the_savers(saver, steps, count):
    assert files_kept([saver], steps) == count


def test_a_due_save_without_room_is_left_out_told_and_tried_again(training, tmp_path, monkeypatch, caplog):
    saver = Checkpoint("every", every_n_train_steps=1)
    tiny = training(4, saver, DiskSpace(), FinalCheckpoint())
    plenty = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: SimpleNamespace(free=100) if tiny.module.position.step == 2 else plenty
    )
    tiny.fit()
    assert saver.failed == 1
    assert "could not save checkpoints/every.ckpt: a checkpoint takes" in caplog.text
    assert "100 bytes are free" in caplog.text


def test_the_last_try_of_the_last_save_does_not_believe_the_system(training, tmp_path, monkeypatch):
    tiny = training(2, DiskSpace(), FinalCheckpoint(wait_seconds=0))
    plenty = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        shutil, "disk_usage", lambda _: SimpleNamespace(free=0) if tiny.module.position.step == 2 else plenty
    )
    tiny.fit()
    assert (tmp_path / "checkpoints/last.ckpt").exists()


def test_the_memory_estimate_counts_what_there_is_and_guesses_moments_that_are_not_yet():
    module = nn.Sequential(nn.Linear(10, 10, bias=False), nn.Linear(10, 5, bias=False).requires_grad_(False))
    module.register_buffer("mask", torch.ones(3))
    module.model_ema, module.base, module.split_weights = None, BaseWeights(), SplitWeights()
    sgd = torch.optim.SGD(module[0].parameters(), lr=1.0, momentum=0.9)
    before = memory_estimate(module, [sgd])
    assert (before.trained, before.frozen, before.gradients, before.optimizer, before.ema) == (400, 212, 400, 400, 0)
    assert memory_estimate(module, [torch.optim.AdamW(module[0].parameters())]).optimizer == 800
    assert memory_estimate(module, [torch.optim.SGD(module[0].parameters(), lr=1.0)]).optimizer == 0
    module[0](torch.ones(10)).sum().backward()
    sgd.step()
    assert memory_estimate(module, [sgd]).optimizer == 400
    assert before.lines() == ("weights 400 bytes + gradients 400 bytes + optimizer 400 bytes + frozen parts 212 bytes")


def test_the_memory_estimate_counts_weights_in_halves_as_the_fp32_ones_that_a_file_holds():
    module = nn.Linear(10, 10, bias=False)
    module.model_ema, module.base, module.split_weights = None, BaseWeights(), SplitWeights()
    module.split_weights.take(module.weight)
    estimate = memory_estimate(module, [torch.optim.SGD(module.parameters(), lr=1.0)])
    assert (estimate.trained, estimate.gradients, estimate.checkpoint) == (400, 200, 400)


def test_the_estimate_is_near_the_file_that_is_written(tmp_path):
    module = nn.Linear(500, 500)
    module.model_ema, module.base, module.split_weights = None, BaseWeights(), SplitWeights()
    adamw = torch.optim.AdamW(module.parameters())
    estimate = memory_estimate(module, [adamw]).checkpoint
    module(torch.ones(500)).sum().backward()
    adamw.step()
    AtomicIO().save_checkpoint({"state_dict": module.state_dict(), "optimizer": adamw.state_dict()}, tmp_path / "a")
    assert estimate == pytest.approx((tmp_path / "a").stat().st_size, rel=0.01)


def test_tensors_are_found_however_deep_they_lie():
    assert held({"a": [torch.ones(2), (torch.ones(1, dtype=torch.float64), "text")], "b": 7}) == 16


@pytest.mark.parametrize(
    ("size", "text"), [(999, "999 bytes"), (7.7e9, "7.7 GB"), (1.2e5, "120 kB"), (3.4e6, "3.4 MB")]
)
def test_sizes_are_told_in_words(size, text):
    assert amount(size) == text
