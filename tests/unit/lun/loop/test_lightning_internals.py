"""Lightning's insides: each is there, and still means what the program takes it for."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch import Callback
from torch import nn

from ldm.errors import Fault
from ldm.lightning_internals import forget_logged, leave_uncounted
from lun.callbacks import Throughput, pace
from lun.loop import lightning_internals
from lun.loop.lightning_internals import (
    dump_checkpoint,
    inside,
    restore_loop_counters,
    silence_sigterm,
    trainer_of,
)

SUBCLASSING = ["strategies.ddp", "strategies.fsdp", "strategies.deepspeed", "strategies.half", "callbacks.progress"]
SUBCLASSING += ["strategies.zero.autocast", "checkpoints.atomic"]


def test_every_inner_counter_that_is_touched_exists_in_this_lightning(training):
    paths = [value for name, value in vars(lightning_internals).items() if name.isupper() and isinstance(value, str)]
    trainer = training(1).trainer
    assert len(paths) >= 8 and all(inside(trainer, path) is not None for path in paths)


def test_a_counter_that_is_gone_is_a_fault_that_names_it(training):
    with pytest.raises(Fault, match=r"DEP01.*does not fit[\s\S]*fit_loop\.nowhere"):
        inside(training(1).trainer, "fit_loop.nowhere")


def test_the_step_count_of_lightning_is_the_one_it_is_seated_at(training):
    tiny = training(9, accumulate=3).fit()
    restore_loop_counters(tiny.trainer, tiny.module, step=5, optimizer_steps=5)
    assert tiny.trainer.global_step == 5
    assert tiny.trainer.fit_loop.total_batch_idx == 14


def test_two_hand_driven_optimizers_are_seated_at_their_sum(training):
    tiny = training(2, manual=True).fit()
    restore_loop_counters(tiny.trainer, tiny.module, step=5, optimizer_steps=10)
    assert tiny.trainer.global_step == 10


def test_ranks_are_not_asked_about_sigterm_before_every_batch(training):
    trainer = training(1).trainer
    silence_sigterm(trainer)
    assert trainer.fit_loop.epoch_loop._broadcast_sigterm_tensor() is None


def test_the_restored_step_is_the_one_that_training_goes_on_from(training) -> None:
    class Restored(Callback):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            pl_module.position.step = 5
            restore_loop_counters(trainer, pl_module, step=5, optimizer_steps=5)

    tiny = training(8, Restored(), accumulate=2).fit()
    assert [step for step, _ in tiny.module.seen] == [5, 5, 6, 6, 7, 7]
    assert tiny.trainer.global_step == 8


def test_the_checkpoint_without_a_file_is_what_a_file_would_hold(training, tmp_path: Path) -> None:
    tiny = training(2).fit()
    whole, weights = dump_checkpoint(tiny.trainer), dump_checkpoint(tiny.trainer, weights_only=True)
    assert whole["state_dict"].keys() == weights["state_dict"].keys() == tiny.module.state_dict().keys()
    assert whole["optimizer_states"][0]["state"][0]["step"] == 2
    assert "optimizer_states" not in weights
    assert list(tmp_path.rglob("*.ckpt")) == []


def test_a_module_knows_its_trainer_and_says_none_without(training) -> None:
    tiny = training(1)
    assert trainer_of(tiny.module) is None and trainer_of(nn.Linear(1, 1)) is None
    tiny.fit()
    assert trainer_of(tiny.module) is tiny.trainer


def test_steps_that_are_left_uncounted_are_not_the_runs(training, tiny_module) -> None:
    module = tiny_module(manual=True)
    real = module.optimizers
    module.optimizers = lambda: [real()[0], leave_uncounted(real()[1])]
    tiny = training(3, manual=True, module=module, max_steps=3).fit()
    assert tiny.module.position.step == 3 and tiny.trainer.global_step == 3


def test_what_was_logged_is_forgotten(training) -> None:
    seen: list[dict[str, Any]] = []

    class Forgets(Callback):
        def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
            pl_module.log("train/loss", 1.0)
            before = dict(inside(trainer, "_results").valid_items())
            forget_logged(trainer)
            seen.append({"before": before, "after": dict(inside(trainer, "_results").metrics(False)["log"])})

    training(1, Forgets()).fit()
    assert seen[0]["before"] and not seen[0]["after"]


class Clock:
    """Time that passes only when told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("fetching", "share"), [(0.0, 0.0), (1.0, 0.25), (9.0, 0.75)])
def test_the_share_of_waiting_rises_where_the_loader_is_slow(training, monkeypatch, fetching, share) -> None:
    clock = Clock()
    monkeypatch.setattr(pace, "perf_counter", clock)
    monkeypatch.setattr(pace.Pace.__init__, "__defaults__", (clock,))
    measured = Throughput()
    waits: list[float] = []
    monkeypatch.setattr(Throughput, "_log", lambda self, *_: waits.append(self._pace.read().wait))
    tiny = training(6, measured, log_every_n_steps=5)

    class Slow:
        """A loader that takes its time for each batch."""

        def __init__(self, loader: Any) -> None:
            self.loader = loader

        def __len__(self) -> int:
            return len(self.loader)

        def __iter__(self) -> Any:
            for batch in self.loader:
                clock.now += fetching
                yield batch

    loader = tiny.data.train_dataloader
    monkeypatch.setattr(tiny.data, "train_dataloader", lambda: Slow(loader()))
    step = tiny.module.training_step

    def computing(batch: Any, batch_idx: int) -> Any:
        clock.now += 3.0
        return step(batch, batch_idx)

    monkeypatch.setattr(tiny.module, "training_step", computing)
    tiny.fit()
    assert waits == [pytest.approx(share)]


@pytest.mark.parametrize("module", SUBCLASSING)
def test_private_names_of_a_base_class_of_others_are_still_there(module: str) -> None:
    """`self._name` that no class of ours sets is the base's: as a method of it, or somewhere in its source."""
    unknown = []
    for kind in vars(import_module(f"lun.{module}")).values():
        if not inspect.isclass(kind) or kind.__module__ != f"lun.{module}":
            continue
        source = inspect.getsource(kind)
        others = [base for base in kind.__mro__ if base.__module__.split(".")[0] in ("lightning", "torch")]
        if not others:
            continue
        theirs = "".join(inspect.getsource(base) for base in others)
        used = set(re.findall(r"(?:self|super\(\))\.(_[a-z]\w*)", source)) | set(re.findall(r"def (_[a-z]\w*)", source))
        for name in used:
            ours = re.search(rf"self\.{name}\b[^=(\n]*=[^=]|def {name}\(", source)
            overrides = f"super().{name}(" in source
            if (not ours or overrides) and not re.search(rf"\b{name}\b", theirs):
                unknown.append(f"{kind.__name__}.{name}")
    assert unknown == []
