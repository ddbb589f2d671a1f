"""A job that is started again by itself goes on with its own run: always forward, no step twice, no other job's run."""

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from support.equality import differences, final_state
from support.killing import metrics
from support.runs import load, newest_run

from ldm.position import Position

Lun = Callable[..., int]


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], None]:
    """`job(id, count)`: this process belongs to that SLURM job, which was started again so many times."""

    def belong(name: str, count: int) -> None:
        monkeypatch.setenv("SLURM_JOB_ID", name)
        monkeypatch.setenv("SLURM_RESTART_COUNT", str(count))

    return belong


def runs(logs: Path) -> list[Path]:
    return sorted(path for path in logs.iterdir() if not path.is_symlink())


def steps(run: Path) -> int:
    return int(load(run / "checkpoints/last.ckpt")["lun"]["position"]["step"])


@pytest.mark.parametrize("minutes", [8, pytest.param(240, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_a_job_that_is_preempted_every_few_minutes_makes_each_step_once(
    lun: Lun, job: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    """A step takes a minute of this clock; the job is told to end after each 2 to 5, and is queued again."""
    words = ["-t", f"lightning.trainer.max_steps={minutes}"]
    assert lun(*words, "--name", "straight") == 0
    straight = newest_run(tmp_path / "logs")
    chance, clock, ends_at = random.Random(0), 0, 0
    advance = Position.advance

    def a_minute(self: Position, examples: int) -> None:
        nonlocal clock
        advance(self, examples)
        clock += 1
        if clock == ends_at:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Position, "advance", a_minute)
    for start in range(minutes):
        job("77", start)
        before, ends_at = clock, clock + chance.randint(2, 5)
        code = lun(*words, "--name", "preempted")
        assert clock > before and code == (0 if clock == minutes else 143)
        if code == 0:
            break
    assert len(runs(tmp_path / "logs")) == 2
    assert differences(final_state(straight), final_state(newest_run(tmp_path / "logs"))) == []
    assert Counter(metrics(newest_run(tmp_path / "logs"))) == Counter(metrics(straight))


def test_a_job_that_is_queued_again_before_it_has_saved_begins_and_leaves_the_newest_run_alone(
    lun: Lun, job: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["-t", "lightning.trainer.max_steps=2"]
    job("76", 0)
    assert lun(*words) == 0
    older = newest_run(tmp_path / "logs")
    job("77", 1)
    newest = ["-r", "--logdir", str(tmp_path / "logs"), "-t"]
    assert lun(*newest, base=False) == 2
    told = capsys.readouterr().err
    assert "error[RES01]: slurm 77 has no run with a checkpoint" in told
    assert lun(*words) == 0
    assert newest_run(tmp_path / "logs") != older and steps(older) == 2
    assert lun(*newest, "lightning.trainer.max_steps=3", base=False) == 0
    assert (steps(older), steps(newest_run(tmp_path / "logs"))) == (2, 3)


def test_another_command_line_of_the_same_job_begins_a_run_of_its_own(
    lun: Lun, job: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a batch script that trains one run after another; that it begins is said."""
    for start in (0, 1):
        job("77", start)
        for name in ("a", "b"):
            assert lun("-t", "lightning.trainer.max_steps=1", "--name", name) == 0
    assert [path.name[-1] for path in runs(tmp_path / "logs")] == ["a", "b"]
    job("77", 2)
    capsys.readouterr()
    assert lun("-t", "lightning.trainer.max_steps=2", "--name", "c") == 0
    assert f"note: slurm 77 began {runs(tmp_path / 'logs')[1]} by another command line" in capsys.readouterr().out


def test_a_job_that_a_person_names_goes_on_with_its_run_and_another_begins_one(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["-t", "lightning.trainer.max_steps=1"]
    for name, count in (("a", 1), ("a", 1), ("b", 2)):
        monkeypatch.setenv("LUN_JOB", name)
        assert lun(*words) == 0
        assert len(runs(tmp_path / "logs")) == count
