"""A search over a training that is made up: what is drawn, what is told, what goes on."""

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from support.run_folder import log_metrics, make_run

from lun.run_dir.directory import VARIABLE
from lun.sweep import search as searching
from lun.sweep.command import run
from lun.sweep.search import FILE, Search
from lun.sweep.trials import space_of

optuna = pytest.importorskip("optuna")
RATE = "model.base_learning_rate=1e-6..1e-4:log"
LINE = ["--base", "emoji", RATE, "model.params.size=2..8", "model.params.kind=a,b"]
METRIC = ["--metric", "val/loss"]


class Training:
    """Stands for `main.py`: its loss is least at a rate of 1e-5; the exit codes are by the number of the call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.codes: dict[int, int] = {}
        self.logged = "val/loss"

    def __call__(self, words: Sequence[str], variables: Mapping[str, str]) -> int:
        self.calls.append(list(words))
        code = self.codes.get(len(self.calls), 0)
        if VARIABLE in variables:
            rate = float(words[2].partition("=")[2])
            log_metrics(made := make_run(Path(variables[VARIABLE]), samples=False), {})
            log_metrics(made, {101: {self.logged: abs(math.log10(rate) + 5)}})
        return code


@pytest.fixture
def training() -> Training:
    return Training()


@pytest.fixture
def sweep(training: Training, tmp_path: Path) -> Callable[..., int]:
    return lambda count, *words: run(
        ["--search", "optuna", "--trials", str(count), *(words or (*LINE, *METRIC)), "-o", str(tmp_path / "s")],
        training,
    )


def rows(tmp_path: Path) -> list[dict[str, str]]:
    with (tmp_path / "s/results.csv").open() as file:
        return list(csv.DictReader(file))


def drawn(training: Training) -> list[list[str]]:
    return [call[2:5] for call in training.calls if call[0] != "--resume"]


def in_range(words: Sequence[str]) -> Iterator[bool]:
    rate, size, kind = (word.partition("=")[2] for word in words)
    yield 1e-6 <= float(rate) <= 1e-4
    yield int(size) in range(2, 9)
    yield kind in ("a", "b")


def test_each_run_is_drawn_from_its_ranges_and_what_came_of_it_is_told(
    sweep: Callable[..., int], training: Training, tmp_path: Path
) -> None:
    training.codes = {3: 6}
    assert sweep(14) == 6
    assert len(training.calls) == 14 and all(all(in_range(words)) for words in drawn(training))
    found = rows(tmp_path)
    losses = [float(row["val/loss"]) for row in found]
    assert losses == sorted(losses) and {row["state"] for row in found} == {"done", "failed"}
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(tmp_path / "s" / FILE)))
    study = optuna.load_study(storage=storage, study_name=searching.STUDY)
    by_rate = {row["model.base_learning_rate"]: float(row["val/loss"]) for row in found}
    assert [one.value for one in study.trials] == [
        None if at == 2 else by_rate[str(one.params["model.base_learning_rate"])] for at, one in enumerate(study.trials)
    ]
    assert study.trials[2].state.name == "FAIL"


def test_a_stop_ends_it_and_the_same_line_goes_on_as_if_there_had_been_none(
    sweep: Callable[..., int], training: Training, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training.codes = {3: 143}
    assert sweep(5) == 143
    search = tmp_path / "s" / FILE
    search.write_bytes(search.read_bytes() + b'{"op_code":')  # as if it was killed while it wrote
    search.with_name(f"{FILE}.lock").touch()
    assert sweep(5) == 0 and sweep(5) == 0
    assert training.calls[3][0] == "--resume" and len(training.calls) == 6
    assert sweep(7) == 0 and len(training.calls) == 8, "with more trials the same search goes on"
    alone = Training()
    words = ["--search", "optuna", "--trials", "7", *LINE, *METRIC, "-o", str(tmp_path / "alone")]
    assert run(words, alone) == 0
    assert drawn(training) == drawn(alone)
    before = search.read_bytes()
    capsys.readouterr()
    assert sweep(7, *LINE, *METRIC, "--table") == 0
    assert "val/loss" in capsys.readouterr().out and search.read_bytes() == before


def test_what_was_drawn_by_half_is_told_to_have_failed(tmp_path: Path) -> None:
    search = Search(tmp_path, space_of(LINE), "val/loss", False)
    search._study.ask()
    number, trial = search.draw()
    assert number == 1 and search.trials() == [trial] and search.ended == 0
    assert search.draw() == (number, trial), "an interrupted trial comes first"


def test_a_run_that_lacks_the_metric_ends_the_search(
    sweep: Callable[..., int], training: Training, capsys: pytest.CaptureFixture[str]
) -> None:
    training.logged = "val/los"
    assert sweep(5) == 2 and len(training.calls) == 1
    assert "no run has logged val/loss" in capsys.readouterr().err


def test_another_search_in_the_same_folder_is_refused(
    sweep: Callable[..., int], training: Training, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert sweep(1) == 0
    for words, differs in [([*LINE[:4], *METRIC], "words"), ([*LINE, "--metric", "x"], "metric")]:
        assert sweep(1, *words) == 2 and f"{differs} differs" in capsys.readouterr().err
    assert sweep(1, *LINE, *METRIC, "--maximize") == 2 and "maximize differs" in capsys.readouterr().err
    (tmp_path / "s" / FILE).write_text("{}\n")
    assert sweep(1) == 2 and "cannot be read as a search" in capsys.readouterr().err
    assert len(training.calls) == 1


def test_without_the_package_it_is_said_how_to_get_it(
    sweep: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(searching, "find_spec", lambda name: None)
    assert sweep(1) == 7
    said = capsys.readouterr().err
    assert "DEP01" in said and "optuna" in said and not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trials", "3", *LINE[:2], "a.b=1,2"], "--trials has no effect"),
        (["--search", "optuna", *LINE, *METRIC], "needs the number of runs"),
        (["--search", "optuna", "--trials", "0", *LINE, *METRIC], "0 runs are too few"),
        (["--search", "optuna", "--trials", "1001", *LINE, *METRIC], "1001 runs are too many"),
        (["--search", "optuna", "--trials", "3", *LINE], "no metric to search by"),
        (["--search", "optuna", "--trials", "3", *METRIC, "--base", "emoji"], "no setting has a range"),
        (["--search", "optuna", "--trials", "3", *METRIC, *LINE, "a.b=3..1"], "3..1 is no range"),
        (["--search", "optuna", "--trials", "3", *METRIC, *LINE, "a.b=1..3,7"], "has a range among its values"),
        (["--search", "optuna", "--trials", "3", *METRIC, *LINE, RATE], "has several values twice"),
        (["--search", "optuna", "--trials", "3", *METRIC, *LINE, "--table"], "nothing was searched"),
        *(
            (["--search", "optuna", "--trials", "3", *METRIC, *LINE, *flag], "contradict each other")
            for flag in (["--slurm"], ["--again"], ["--index", "1"])
        ),
        (["--search", "optuna", "--trials", "3", *METRIC, "--queue", "q.txt"], "contradict each other"),
        (["--search", "grid", *LINE], "optuna"),
        (LINE, "1e-6..1e-4:log is a range"),
        (["--base", "emoji", "a.b=1,2", "a.c=4..2"], "4..2 is no range"),
        (["--base", "emoji", "a.b=1..2,3"], "has a range among its values"),
    ],
)
def test_what_has_no_effect_is_refused(
    words: list[str], message: str, training: Training, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, "-o", str(tmp_path / "s")], training) == 2
    assert message in capsys.readouterr().err and training.calls == [] and not (tmp_path / "s").exists()
