"""Disks that are full, broken or gone at any write: the run goes on or ends in words, and no checkpoint is harmed."""

import contextlib
import errno
import io
import itertools
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.disk import Disk
from support.equality import differences, final_state
from support.runs import TINY, make_pictures, newest_run
from support.warm import IMAGES, VALIDATION

from ldm.position import Position
from lun.callbacks.final import FinalCheckpoint
from lun.checkpoints.atomic import unreadable
from lun.trainer import run

SETTINGS = [
    "lightning.trainer.max_steps=3",
    "lightning.trainer.val_check_interval=2",
    VALIDATION,
    IMAGES.replace("batch_frequency: 1", "batch_frequency: 3"),
    "lightning.callbacks.periodic_checkpoint_overwrite={target: lun.callbacks.Checkpoint,"
    " params: {filename: every-2k-steps, every_n_train_steps: 2}}",
]
ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO, "read-only": errno.EROFS}
FOR_EVER = 10**9


class Trial:
    """The program in this process on a disk that fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = make_pictures(folder / "data", 5)
        self.numbers = itertools.count()
        whole, _ = self.run(Disk(folder))
        self.writes = whole.writes
        self.straight = final_state(self.newest())

    def newest(self) -> Path:
        """The one run that there is, also where no link to it could be made."""
        return next(path for path in self.logs.iterdir() if path.is_dir() and not path.is_symlink())

    def run(self, disk: Disk) -> tuple[Disk, int]:
        """Exit code of one run; it may neither show a traceback nor leave a torn file."""
        self.logs = self.folder / str(next(self.numbers)) / "logs"
        words = ["--base", str(TINY), "--logdir", str(self.logs), "--data_root", str(self.data), "-t", *SETTINGS]
        said = io.StringIO()
        disk.folder = str(self.logs.parent)
        with disk.inserted(), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = run(words)
        assert "Traceback" not in said.getvalue(), (disk.failed, said.getvalue())
        assert code in (0, 8), (disk.failed, said.getvalue())
        if code:
            assert "error[DSK01]: " in said.getvalue()
        for path in self.logs.rglob("*.ckpt"):
            assert path.name.startswith(".") or unreadable(path) is None
        return disk, code

    def clear(self) -> None:
        shutil.rmtree(self.logs.parent, ignore_errors=True)


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    return Trial(tmp_path_factory.mktemp("disk"))


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last save waits five minutes for room; a test does not."""
    monkeypatch.setattr(FinalCheckpoint.__init__, "__defaults__", ("checkpoints", 0.3, 0.01))


def check(trial: Trial, number: int, first: int, last: int, kept: dict[str, Any]) -> str:
    """One run in which writes `first` to `last` fail; returns what was hit and how it ended."""
    disk, code = trial.run(Disk(trial.folder, number, first, last))
    assert disk.failed
    if code == 0:
        assert differences(kept, final_state(trial.newest())) == []
    trial.clear()
    return f"{Path(disk.failed[0]).suffix or 'folder'}: exit code {code}"


def test_a_write_that_fails_once_costs_no_more_than_what_it_wrote(trial: Trial) -> None:
    """Some of the writes; the long part tries each."""
    for first in range(1, trial.writes + 1, trial.writes // 5):
        check(trial, errno.ENOSPC, first, first, trial.straight)


def test_a_disk_that_fails_from_some_moment_on_ends_the_run_in_words(trial: Trial) -> None:
    for number, first in zip(ERRORS.values(), (2, trial.writes // 2, trial.writes * 3 // 4), strict=True):
        check(trial, number, first, FOR_EVER, trial.straight)


def test_room_that_is_made_in_time_lets_the_run_end_well(trial: Trial) -> None:
    """The save is tried again; lines of metrics that could not be written come later."""
    first = trial.writes * 2 // 3
    assert check(trial, errno.ENOSPC, first, first + 40, trial.straight).endswith("exit code 0")


def removed(folder: Path) -> None:
    shutil.rmtree(folder)


def replaced_by_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("in the way")


@pytest.mark.parametrize(
    ("place", "happens", "code"),
    [("checkpoints", removed, 0), (".", removed, 0), ("checkpoints", replaced_by_a_file, 8)],
    ids=["checkpoints removed", "all of the run removed", "a file in the place of checkpoints"],
)
def test_a_folder_that_goes_in_the_middle_of_a_run(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, place: str, happens: Callable[[Path], None], code: int
) -> None:
    advance = Position.advance

    def advanced(self: Position, examples: int) -> None:
        advance(self, examples)
        if self.step == 1:
            happens(trial.newest() / place)

    monkeypatch.setattr(Position, "advance", advanced)
    assert trial.run(Disk(trial.folder))[1] == code
    trial.clear()


def renamed(run: Path) -> Path:
    return run.rename(run.with_name("renamed"))


def moved_to_another_disk(run: Path) -> Path:
    """As people do whose disk fills: a link stays in the place."""
    moved = Path(shutil.move(run, run.parents[1] / "elsewhere"))
    run.symlink_to(moved)
    return moved


@pytest.mark.parametrize("happens", [renamed, moved_to_another_disk])
def test_a_run_that_is_moved_while_it_trains_ends_well_where_it_began(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, happens: Callable[[Path], Path]
) -> None:
    """And what it had saved before is whole where it was moved to."""
    advance, places = Position.advance, []

    def advanced(self: Position, examples: int) -> None:
        advance(self, examples)
        if self.step == 3:
            run = trial.newest()
            places.extend([run, happens(run)])

    monkeypatch.setattr(Position, "advance", advanced)
    assert trial.run(Disk(trial.folder))[1] == 0
    began, moved = places
    assert differences(trial.straight, final_state(began)) == []
    assert unreadable(moved / "checkpoints/every-2k-steps.ckpt") is None
    trial.clear()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 64 MB, where one may be mounted."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_real_disk_that_runs_full_keeps_what_was_saved(
    small_disk: Path, trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else fills it after the second step; the last save finds no room."""
    advance = Position.advance

    def advanced(self: Position, examples: int) -> None:
        advance(self, examples)
        if self.step == 3:
            (small_disk / "filler").write_bytes(bytes(shutil.disk_usage(small_disk).free - (1 << 20)))

    monkeypatch.setattr(Position, "advance", advanced)
    words = ["--base", str(TINY), "--logdir", str(small_disk), "--data_root", str(trial.data), "-t", *SETTINGS]
    assert run([*words, "lightning.trainer.max_steps=6"]) == 8
    (kept,) = newest_run(small_disk).rglob("*.ckpt")
    assert kept.name == "every-2k-steps.ckpt" and unreadable(kept) is None
    assert list(newest_run(small_disk).rglob("checkpoints/**/.*")) == []


@pytest.mark.slow
@pytest.mark.timeout(9000)
@pytest.mark.parametrize("name", ERRORS)
def test_every_single_write_that_fails(trial: Trial, name: str) -> None:
    counts: Counter[str] = Counter()
    for first in range(1, trial.writes + 1):
        counts[check(trial, ERRORS[name], first, first, trial.straight)] += 1
    print(name, dict(counts))
