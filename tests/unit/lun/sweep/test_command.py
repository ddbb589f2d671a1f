"""A sweep over a training that is made up: what runs, what goes on, what the table says."""

import csv
import json
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from support.run_folder import log_metrics, make_run

from lun.run_dir.directory import VARIABLE
from lun.sweep.command import run

LINE = ["--base", "emoji", "model.base_learning_rate=1e-5,3e-5,1e-4"]
LOSSES = {"1e-5": (0.5, 0.4), "3e-5": (0.3, 0.35), "1e-4": (0.6, 0.7)}


class Training:
    """Stands for `main.py`: notes its words, and leaves a run; `codes` are by the value of the rate."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.codes: dict[str, int] = {}

    def __call__(self, words: Sequence[str], variables: Mapping[str, str]) -> int:
        self.calls.append(list(words))
        rate = next((rate for rate in LOSSES if any(f"rate={rate}" in word for word in words)), "")
        code = self.codes.get(rate, 0)
        if VARIABLE in variables and code != 2:
            log_metrics(made := make_run(Path(variables[VARIABLE]), samples=False), {})
            log_metrics(made, {100 + step: {"val/loss": loss} for step, loss in enumerate(LOSSES.get(rate, ()), 1)})
        return code


@pytest.fixture
def training() -> Training:
    return Training()


@pytest.fixture
def sweep(training: Training, tmp_path: Path) -> Callable[..., int]:
    return lambda *words: run([*words, "-o", str(tmp_path / "s")], training)


def rows(tmp_path: Path) -> list[dict[str, str]]:
    with (tmp_path / "s/results.csv").open() as file:
        return list(csv.DictReader(file))


def test_each_value_is_run_once_and_the_table_is_sorted_by_the_lowest_value(
    sweep: Callable[..., int], training: Training, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(*LINE, "--metric", "val/loss") == 0
    where = ["--logdir", str(tmp_path / "s/runs"), "-t"]
    assert training.calls == [["--base", "emoji", f"model.base_learning_rate={rate}", *where] for rate in LOSSES]
    found = rows(tmp_path)
    assert [row["model.base_learning_rate"] for row in found] == ["3e-5", "1e-5", "1e-4"]
    assert (found[0]["val/loss"], found[0]["at step"], found[0]["last"], found[0]["state"]) == (
        "0.3",
        "101",
        "0.35",
        "done",
    )
    table = capsys.readouterr().out
    assert table.index("3e-5") < table.index("0.35")
    assert json.loads((tmp_path / "s/results.json").read_text())[2]["val/loss"] == 0.6
    assert sweep(*LINE, "--metric", "val/loss", "--maximize") == 0
    assert len(training.calls) == 3, "what is done is not run again"
    assert [row["model.base_learning_rate"] for row in rows(tmp_path)] == ["1e-4", "1e-5", "3e-5"]


def test_what_fails_is_in_the_table_and_stops_nobody(
    sweep: Callable[..., int], training: Training, tmp_path: Path
) -> None:
    training.codes = {"1e-5": 2, "3e-5": 6}
    assert sweep(*LINE, "--metric", "val/loss") == 2
    codes = {row["model.base_learning_rate"]: (row["state"], row["exit code"]) for row in rows(tmp_path)}
    assert codes == {"1e-5": ("failed", "2"), "3e-5": ("failed", "6"), "1e-4": ("done", "0")}
    training.codes = {}
    assert sweep(*LINE) == 2 and len(training.calls) == 3
    assert sweep(*LINE, "--again") == 0 and len(training.calls) == 5
    assert training.calls[3][2] == "model.base_learning_rate=1e-5" and training.calls[4][0] == "--resume"


def test_a_stop_ends_the_sweep_and_the_same_line_goes_on_with_the_run_that_it_stopped(
    sweep: Callable[..., int], training: Training, tmp_path: Path
) -> None:
    training.codes = {"3e-5": 143}
    assert sweep(*LINE) == 143
    assert len(training.calls) == 2
    training.codes = {}
    assert sweep(*LINE) == 0
    run_of_it = next(path for path in (tmp_path / "s/runs").iterdir() if "3e-5" in path.name)
    assert training.calls[2] == ["--resume", str(run_of_it), "-t"] and len(training.calls) == 4
    next((run_of_it / "checkpoints").iterdir()).unlink()
    next((tmp_path / "s/ended").glob("*3e-5*")).unlink()  # as if it was killed before its first save
    assert sweep(*LINE) == 0
    assert training.calls[4][-1] == "-t" and (tmp_path / "s/runs" / f"{run_of_it.name}-2").is_dir()


def test_a_metric_that_nobody_logs_is_said_with_those_that_are(
    sweep: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(*LINE, "--metric", "val/los") == 2
    said = capsys.readouterr()
    assert "no run has logged val/los" in said.err and "--metric val/loss" in said.err and "3e-5" in said.out


def test_each_task_of_an_array_does_its_run_by_a_script_that_bash_reads(
    sweep: Callable[..., int], training: Training, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sweep(*LINE, "a.b='x, y'", "--metric", "val/loss", "--slurm") == 0 and training.calls == []
    script = tmp_path / "s/sweep.sbatch"
    assert "#SBATCH --array=1-3\n" in script.read_text()
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0
    words = shlex.split(script.read_text().splitlines()[-1])
    assert words[:2] == ["exec", "srun"] and words[3:5] == ["-m", "lun.sweep"] and words[-2] == "--index"
    assert run([*words[5:-1], "2"], training) == 0 and run([*words[5:-1], "2"], training) == 0
    assert [call[2] for call in training.calls] == ["model.base_learning_rate=3e-5"]
    assert run([*words[5:-1], "4"], training) == 2
    assert sweep(*LINE, "a.b='x, y'", "--table") == 0 and len(training.calls) == 1
    assert [row["state"] for row in rows(tmp_path)] == ["new", "done", "new"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--queue", "q.txt", "--base", "emoji"], "--base has no effect"),
        ([*LINE, "--maximize"], "--maximize has no effect"),
        ([*LINE, "--slurm", "--table"], "contradict each other"),
        (["--queue", "no-such.txt"], "cannot be read"),
        ([*LINE, "--table"], "nothing was run in"),
    ],
)
def test_what_has_no_effect_or_is_not_there_is_refused(
    words: list[str], message: str, sweep: Callable[..., int], training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sweep(*words) == 2
    assert message in capsys.readouterr().err and training.calls == []
