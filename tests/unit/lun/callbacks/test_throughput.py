"""Speed and memory in the loggers."""

import logging
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.profilers import PassThroughProfiler

from lun.callbacks import throughput
from lun.callbacks.throughput import Throughput, resident_gib, slow_loading


class Notebook:
    """A logger that keeps what it is told."""

    def __init__(self):
        self.lines = []

    def log_metrics(self, metrics, step):
        self.lines.append((step, metrics))


@pytest.fixture
def trainer():
    return SimpleNamespace(
        profiler=PassThroughProfiler(),
        loggers=[Notebook()],
        log_every_n_steps=5,
        accumulate_grad_batches=2,
        train_dataloader=SimpleNamespace(num_workers=1),
    )


@pytest.fixture
def module():
    return SimpleNamespace(position=SimpleNamespace(step=0, images=0), device=torch.device("cpu"))


def train(callback, trainer, module, steps, waited=0.0):
    """`steps` windows of two micro-batches, whose batches are `waited` seconds late."""
    callback.on_train_start(trainer, module)
    for index in range(2 * steps):
        throughput.stopwatch(trainer).fetching += waited
        if index % 2 == 1:
            module.position.step += 1
            module.position.images += 8
        callback.on_train_batch_end(trainer, module, None, None, index)


def test_speed_is_logged_every_so_many_optimizer_steps_and_not_micro_batches(trainer, module):
    train(Throughput(), trainer, module, 12)
    assert [step for step, _ in trainer.loggers[0].lines] == [5, 10]


def test_a_run_on_the_cpu_logs_no_gpu_memory(trainer, module):
    train(Throughput(), trainer, module, 5)
    assert set(trainer.loggers[0].lines[0][1]) == {
        "perf/images_per_s",
        "perf/step_ms",
        "perf/data_wait",
        "mem/rss_gib",
    }


def test_a_run_that_waits_for_its_images_is_told_once(trainer, module, caplog):
    caplog.set_level(logging.INFO, "lun")
    trainer.log_every_n_steps = 20
    train(Throughput(), trainer, module, 60, waited=10.0)
    notes = [record.message for record in caplog.records if "PRF01" in record.message]
    assert len(notes) == 1 and notes[0].startswith("note[PRF01]: 100 % of the time is spent waiting for images; ")


def test_a_run_that_does_not_wait_is_told_nothing(trainer, module, caplog):
    caplog.set_level(logging.INFO, "lun")
    trainer.log_every_n_steps = 20
    train(Throughput(), trainer, module, 40)
    assert not caplog.records


def test_the_note_proposes_more_workers_as_long_as_there_are_cores(monkeypatch):
    monkeypatch.setattr(throughput, "available_cpus", lambda: 16)
    assert slow_loading(0.34, 4) == (
        "note[PRF01]: 34 % of the time is spent waiting for images; try data.params.num_workers=8 (now 4; 16 cores)"
    )
    assert "num_workers" not in slow_loading(0.34, 16)


def test_memory_of_this_process_is_a_few_hundredths_of_a_gibibyte_or_more():
    assert 0.02 < (resident_gib() or 0.0) < 100
