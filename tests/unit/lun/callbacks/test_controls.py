import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback

from lun.callbacks import FinalCheckpoint, ImageLogger, Stops
from lun.callbacks.controls import COMMANDS, Controls
from lun.checkpoints.atomic import AtomicIO, peek
from lun.loop.rank_agreement import RankAgreement


class Ask(Callback):
    """Puts command files there in the middle of a step."""

    def __init__(self, step: int, *names: str) -> None:
        self.step, self.names = step, names

    def on_before_optimizer_step(self, trainer, pl_module, optimizer) -> None:
        if pl_module.position.step == self.step:
            for name in self.names:
                (Path(trainer.default_root_dir) / "control" / name).touch()


@pytest.fixture
def controlled(training, caplog) -> Callable:
    caplog.set_level(logging.INFO)

    def build(steps: int, *callbacks: Callback, **arguments):
        stops = Stops()
        tiny = training(steps, Controls(stops), *callbacks, stops, FinalCheckpoint(), **arguments)
        tiny.stops = stops
        return tiny

    return build


def commands(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "control").iterdir())


@pytest.mark.parametrize("accumulate", [1, 3])
def test_save_writes_a_file_of_its_own_at_the_next_step(controlled, tmp_path, accumulate, caplog):
    controlled(5, Ask(1, "save"), Ask(3, "save"), accumulate=accumulate).fit()
    asked = sorted(path.name for path in (tmp_path / "checkpoints/asked").glob("*.ckpt"))
    assert asked == ["step-000002.ckpt", "step-000004.ckpt"]
    assert peek(tmp_path / "checkpoints/asked/step-000002.ckpt")["lun"]["position"]["step"] == 2
    assert "control/save: saved checkpoints/asked/step-000002.ckpt at step 2" in caplog.text
    assert commands(tmp_path) == []


def test_a_save_that_fails_is_told_and_not_tried_for_ever(controlled, tmp_path, monkeypatch, caplog):
    real, tries = AtomicIO.save_checkpoint, []

    def save(self, checkpoint, path, storage_options=None):
        tries.append(path.name)
        if "asked" in str(path):
            raise OSError(28, "No space left on device")
        real(self, checkpoint, path, storage_options)

    monkeypatch.setattr(AtomicIO, "save_checkpoint", save)
    controlled(5, Ask(1, "save")).fit()
    assert tries == ["step-000002.ckpt", "last.ckpt"]
    assert "ask again with control/save" in caplog.text
    assert commands(tmp_path) == []


def test_stop_ends_like_ctrl_c(controlled, tmp_path):
    tiny = controlled(9, Ask(2, "stop")).fit()
    assert tiny.stops.exit_code == 130
    assert tiny.module.position.step == 3
    assert peek(tmp_path / "checkpoints/last.ckpt")["lun"]["position"]["step"] == 3
    assert commands(tmp_path) == []


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("manual", [False, True])
def test_validate_adds_one_validation_and_moves_no_other(controlled, tmp_path, accumulate, manual):
    asked = controlled(8, Ask(1, "validate"), accumulate=accumulate, manual=manual, validate_every=4).fit().module
    assert asked.validated == [3, 4, 8]
    assert commands(tmp_path) == []
    plain = controlled(8, accumulate=accumulate, manual=manual, validate_every=4).fit().module
    assert plain.validated == [4, 8]
    assert torch.equal(asked.net.weight, plain.net.weight)


def test_validate_without_a_validation_set_says_so(controlled, tmp_path, caplog):
    controlled(4, Ask(1, "validate")).fit()
    assert caplog.text.count("nothing is validated in this run") == 1
    assert commands(tmp_path) == []


def test_sample_lets_the_image_logger_draw_once(controlled, tmp_path, monkeypatch, caplog):
    drawn = []
    monkeypatch.setattr(ImageLogger, "_draw_batch", lambda self, t, m, batch, split, step: drawn.append(step))
    controlled(9, Ask(3, "sample"), ImageLogger(batch_frequency=6)).fit()
    assert drawn == [0, 4, 6, 9]
    assert "control/sample: drawing at step 4" in caplog.text
    assert commands(tmp_path) == []


def test_sample_without_an_image_logger_says_so(controlled, tmp_path, caplog):
    controlled(3, Ask(1, "sample"), ImageLogger(disabled=True)).fit()
    assert "there is no image logger to draw" in caplog.text
    assert commands(tmp_path) == []


def test_several_commands_at_once_are_all_carried_out(controlled, tmp_path):
    tiny = controlled(9, Ask(2, "save", "stop")).fit()
    assert tiny.module.position.step == 3
    assert (tmp_path / "checkpoints/asked/step-000003.ckpt").exists()
    assert commands(tmp_path) == []


def test_commands_from_before_the_start_are_removed_unheeded(controlled, tmp_path, caplog):
    (tmp_path / "control").mkdir()
    (tmp_path / "control/stop").touch()
    tiny = controlled(3).fit()
    assert (tiny.module.position.step, tiny.stops.exit_code) == (3, 0)
    assert "control/stop is from before this start" in caplog.text
    assert commands(tmp_path) == []


def test_a_file_that_is_no_command_is_told_once_and_left(controlled, tmp_path, caplog):
    controlled(5, Ask(1, "sav")).fit()
    assert caplog.text.count("control/sav is no command; there are save, sample, validate, stop") == 1
    assert commands(tmp_path) == ["sav"]


def test_a_removed_directory_is_no_error(controlled, tmp_path):
    class Remove(Callback):
        def on_train_batch_end(self, trainer, pl_module, *_):
            if pl_module.position.step == 1:
                (tmp_path / "control").rmdir()

    assert controlled(3, Remove()).fit().module.position.step == 3


def test_all_ranks_do_what_the_first_one_found(controlled, monkeypatch):
    """Other ranks look at nothing; what was agreed is carried out."""
    tiny = controlled(4)
    monkeypatch.setattr(Controls, "_look", lambda self: pytest.fail("a rank other than 0 looked"))
    monkeypatch.setattr(type(tiny.trainer), "is_global_zero", property(lambda self: False))
    monkeypatch.setattr(RankAgreement, "alone", property(lambda self: False))
    stop = 1 << COMMANDS.index("stop")
    monkeypatch.setattr(RankAgreement, "votes", lambda self, step, cast: [max(stop, *cast(), 0)])
    monkeypatch.setattr(RankAgreement, "largest_and_votes", lambda self, number, step, votes: number)
    (Path(tiny.trainer.default_root_dir) / "control").mkdir()
    assert tiny.fit().module.position.step == 1
    assert tiny.stops.exit_code == 130


class Make(Callback):
    """Makes a folder in the place of a command's file, with something in it."""

    def __init__(self, name: str, filled: bool) -> None:
        self.name, self.filled = name, filled

    def on_before_optimizer_step(self, trainer, pl_module, optimizer) -> None:
        if pl_module.position.step == 1:
            (Path(trainer.default_root_dir) / "control" / self.name / ("x" if self.filled else "")).mkdir(parents=True)


@pytest.mark.parametrize("filled", [False, True])
def test_a_folder_in_the_place_of_a_command_is_carried_out_once(controlled, tmp_path, filled, caplog):
    controlled(5, Make("save", filled)).fit()
    assert [path.name for path in (tmp_path / "checkpoints/asked").glob("*.ckpt")] == ["step-000002.ckpt"]
    assert ("control/save cannot be removed" in caplog.text) == filled


def test_a_file_in_the_place_of_the_folder_of_commands_costs_the_commands_alone(controlled, tmp_path, caplog):
    (tmp_path / "control").touch()
    controlled(2).fit()
    assert "no commands can be given to this run" in caplog.text


@pytest.fixture
def listened(tmp_path, monkeypatch) -> Callable[[float], tuple[int, int]]:
    """`listened(seconds) -> (commands as bits, how often the folder was read)` at a step so long after the start."""
    trainer = SimpleNamespace(is_global_zero=True, default_root_dir=str(tmp_path))
    controls, reads, listdir = Controls(Stops()), [], os.listdir
    controls.on_train_start(trainer, None)
    monkeypatch.setattr(os, "listdir", lambda folder: reads.append(folder) or listdir(folder))

    def at(seconds: float) -> tuple[int, int]:
        reads.clear()
        with monkeypatch.context() as clock:
            clock.setattr(time, "monotonic", lambda: seconds)
            return controls.vote(trainer, None, 1, False), len(reads)

    os.utime(tmp_path / "control", (1, 1))
    return at


def test_a_folder_that_stays_as_it_is_is_soon_read_no_more(listened, tmp_path):
    assert [listened(seconds) for seconds in (0, 1, 4, 5, 6)] == [(0, 1), (0, 1), (0, 1), (0, 0), (0, 0)]
    (tmp_path / "control/save").touch()
    assert listened(7) == (1, 1) and listened(20) == (1, 1) and listened(30) == (1, 1)


def test_a_command_is_heard_that_came_within_one_tick_of_the_file_systems_clock(listened, tmp_path):
    assert listened(0) == (0, 1)
    (tmp_path / "control/stop").touch()
    os.utime(tmp_path / "control", (1, 1))
    assert listened(1) == (8, 1)
