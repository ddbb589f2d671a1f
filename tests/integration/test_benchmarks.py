"""The measurements of `scripts/bench.sh`: each works at its smallest size, and the page loses none of their rows."""

import importlib
import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

Import = Any


@pytest.fixture(scope="module")
def bench(repo_root: Path) -> Iterator[Import]:
    """`bench(name)` is a module of tests/bench, imported as its scripts import one another."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repo_root / "tests/bench"))
        patch.setitem(sys.modules, "deepspeed", None)  # as `without_deepspeed` does for good
        patch.setenv("LUN_THREADS", "1")
        yield importlib.import_module


def results(measurements: ModuleType, value: float) -> dict[str, Any]:
    """As if every row had been measured, with that value in every column that a goal asks for."""
    columns = {goal.column: value for goal in measurements.GOALS if goal.column}
    return {
        one.name: {
            "machine": {"load": 0.1, "commit": "abc"},
            "rows": [{"name": row, "value": value, "unit": "s", "beside": columns} for row in one.rows],
        }
        for one in measurements.MEASUREMENTS
    }


def test_the_committed_page_is_what_its_numbers_make_with_every_row(bench: Import, repo_root: Path) -> None:
    told = json.loads((repo_root / "docs/benchmarks.json").read_text())
    page = (repo_root / "docs/benchmarks.md").read_text()
    assert page == bench("page").page(told)
    for measurement in bench("measurements").MEASUREMENTS:
        _, _, section = page.partition(f"## {measurement.title}\n")
        assert [f"\n| {row} | " in section for row in measurement.rows] == [True] * len(measurement.rows)


def test_what_was_not_measured_is_said(bench: Import) -> None:
    page, known = bench("page").page({"now": {}}), bench("measurements")
    rows = sum(len(one.rows) for one in known.MEASUREMENTS)
    assert page.count("| not run |") == rows + len(known.GOALS)
    assert ": met" not in page and ": not met" not in page


def test_a_goal_is_met_or_not_by_its_limit_now_and_before(bench: Import) -> None:
    known = bench("measurements")
    page = bench("page").page({"now": results(known, 0.0), "before": results(known, 1e9)})
    lines = [line for line in page.splitlines() if line.count(": met") or line.count(": not met")]
    low = [goal for goal in known.GOALS if not goal.at_least]
    assert len(lines) == len(known.GOALS)
    assert sum("0.00: met | 1,000,000,000: not met" in line for line in lines) == len(low)


def test_every_goal_names_a_row_that_is_measured(bench: Import) -> None:
    known = bench("measurements")
    assert [goal for goal in known.GOALS if goal.row not in known.NAMED[goal.measurement].rows] == []


def test_another_commit_is_measured_with_these_scripts_in_turn(
    bench: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one fails, the others are still on the page, and the exit code says so."""
    run, known = bench("run"), bench("measurements")
    seen: list[tuple[str, bool]] = []

    def take(measurement: Any, program: Path, folder: Path, label: str) -> Any:
        seen.append((measurement.name, (program / "main.py").is_file()))
        return None if (measurement.name, label) == ("ema", "before") else results(known, 1.0)[measurement.name]

    monkeypatch.setattr(run, "take", take)
    code = run.main(["cpu", str(tmp_path), "--against", "HEAD", "--only", "step", "ema"])
    assert code == 1
    assert seen == [("step", True), ("step", True), ("ema", True), ("ema", True)]
    told = json.loads((tmp_path / "benchmarks.json").read_text())
    assert {label: set(found) for label, found in told.items()} == {"now": {"step", "ema"}, "before": {"step"}}
    sections = (tmp_path / "benchmarks.md").read_text().split("\n## ")
    assert [section.partition("\n")[0] for section in sections if "| before: s |" in section] == ["Step"]


def test_the_work_tree_of_another_commit_goes_where_sigterm_ends_the_process(bench: Import) -> None:
    usual = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, bench("run").checkout("HEAD") as place:
        signal.getsignal(signal.SIGTERM)(signal.SIGTERM, None)
    assert ended.value.code == 143 and not place.exists()
    assert signal.getsignal(signal.SIGTERM) == usual


SCRIPT = """
import json, sys
json.dump({"rows": [{"name": name} for name in sys.argv[1].split()]}, open(sys.argv[3], "w"))
"""


def test_a_measurement_says_what_it_took_of_the_machine_and_of_the_clock(
    bench: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = bench("run"), tmp_path / "script.py"
    file.write_text(SCRIPT)
    measurement = bench("measurements").Measurement("one", "One", str(file), ("a", "b"), "", words=("a",))
    spent = run.cpu_of_children()
    monkeypatch.setattr(run, "cpu_of_children", iter([1.0, 8.4, 9.0, 9.0]).__next__)
    assert run.take(measurement, tmp_path, tmp_path, "now") == {"rows": [{"name": "a"}]}
    shown = capsys.readouterr()
    assert shown.out.endswith(" s, 7 s of CPU\n") and shown.err == "one (now): no row 'b'\n"
    with pytest.raises(SystemExit, match="does not list"):
        run.take(measurement._replace(words=("a c",)), tmp_path, tmp_path, "now")
    monkeypatch.undo()
    assert run.cpu_of_children() > spent


def test_data_is_measured_at_the_smallest_size(bench: Import, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))
    growth, scan = bench("data_growth"), bench("data_scan")
    small, large = growth.measure((40, 50), tmp_path / "grown")
    assert small.name == "40 pictures" and large.beside["us an example"] > 0
    scan.make_board(tmp_path / "board", 200)
    rows = [*scan.scan(tmp_path / "board", 200), *scan.pictures(tmp_path, 1)]
    bench("report").present("scan", rows, tmp_path / "scan.json")
    told = json.loads((tmp_path / "scan.json").read_text())["rows"]
    assert tuple(row["name"] for row in told) == bench("measurements").NAMED["scan"].rows


def test_averages_are_measured_at_the_smallest_size(bench: Import) -> None:
    ema = bench("bench_ema")
    assert tuple(ema.BUILDERS) == bench("measurements").NAMED["ema"].rows
    assert ema.measure("LitEma", torch.float32, 1, 1e-4)["ratio"] > 0


def test_every_start_and_every_strategy_is_a_row(bench: Import, tmp_path: Path) -> None:
    named = bench("measurements").NAMED
    start = bench("start")
    assert sorted(start.lines(tmp_path)) == sorted(named["start"].rows)
    assert {start.end_of(row) for row in named["start"].rows} == {0, 2, 3}
    with pytest.raises(RuntimeError, match="ended with 3"):
        start.cost(["-c", "raise SystemExit(3)"])
    assert tuple(name for cases in bench("ranks").CASES.values() for name in cases) == named["ranks"].rows
    assert [f"batch {batch}" for batch in (1, 2, 4, 8)] == list(named["step_growth"].rows[:4])
    assert tuple(bench("step_growth").POINTS) == named["step_growth"].rows


@pytest.mark.slow
def test_compiled_blocks_launch_less(bench: Import, tmp_path: Path) -> None:
    recipe = bench("small_model").Recipe(width=32, size=64, batch=2, context=32)
    model = bench("small_model").write_model(tmp_path, recipe)
    compiled, replayed = bench("compiled_counts").saved(model, recipe)
    assert 300 < compiled < 1000 and 1000 < replayed < 2300


@pytest.mark.slow
def test_the_loader_is_measured_at_the_smallest_size(bench: Import, tmp_path: Path) -> None:
    file = tmp_path / "pictures.json"
    small = {"count": 2, "width": 96, "height": 64, "size": 64, "batch": 2, "repeats": 1, "json": file}
    bench("data").main([word for name, value in small.items() for word in (f"--{name}", str(value))])
    rows = json.loads(file.read_text())["rows"]
    assert tuple(row["name"] for row in rows) == bench("measurements").NAMED["pictures"].rows


def test_a_machine_that_slows_down_changes_nothing_of_what_a_loop_takes_beyond_another(bench: Import) -> None:
    turns = bench("turns")
    measured = turns.Turns("raw", ("bare", "ours"), 3, 1)
    names = ["raw", "bare", "raw", "ours"]
    costs = {"raw": 100.0, "bare": 130.0, "ours": 120.0}
    measured._taken = [turns.Taken(place + costs[names[place % 4]], place) for place in range(20)]
    assert (measured.beyond("bare").wall, measured.beyond("ours").wall) == (30.0, 20.0)
    assert measured.beyond("ours").cpu == 0.0 and measured.alone().wall == 106.0


def test_the_calls_of_a_loop_are_counted_in_steps_that_are_not_timed(bench: Import) -> None:
    taking = bench("turns").Turns("raw", ("ours",), 0, 2)
    for name in ("raw", "ours") * 2:
        taking.begin(name)
        for _ in range(taking.steps):
            [abs(number) for number in range(5 if name == "ours" else 0)]
        taking.over()
    assert taking.calls("ours") > taking.calls("raw") >= 0
    assert taking.steps_of("ours") == 4 and taking._timed() == []


@pytest.mark.slow
def test_the_loop_is_measured_at_the_smallest_size(bench: Import) -> None:
    rows = bench("step_overhead").measure([8], 2, 2)
    assert [row.name for row in rows] == list(bench("measurements").NAMED["overhead"].rows[:3])
    lightning, ours = (row.beside["calls"] for row in rows[1:])
    assert 0 < ours < lightning


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_ranks_are_measured_at_the_smallest_size(bench: Import, tmp_path: Path) -> None:
    rows = bench("ranks").measure(bench("ranks").SMALL, 1, tmp_path)
    assert tuple(row.name for row in rows) == bench("measurements").NAMED["ranks"].rows


LINE_OF_PROGRESS = 2
"""Launches that read the losses for it, at most ten times a second."""


def test_launches_bytes_and_reads_of_both_are_counted(bench: Import) -> None:
    script, ours = bench("counts").measure(bench("small_model").Recipe(width=32, size=32, batch=1, context=32), 1)
    assert 1800 < ours.value <= script.value + LINE_OF_PROGRESS and script.value < 3000
    assert script.beside["waits of the host"] == 4 and ours.beside["waits of the host"] == 0
    assert ours.beside["MiB allocated"] < script.beside["MiB allocated"]


def test_a_step_is_raced_against_the_script_at_the_smallest_size(bench: Import, tmp_path: Path) -> None:
    step, small_model = bench("step"), bench("small_model")
    field = step.Field(tmp_path, small_model.Recipe(width=32, size=32, batch=1, context=32))
    script = field.script(foreach_ema=True).begin()
    taken = bench("race").beside(field.words, {step.FOREACH: script.step}, turns=1, steps=1)
    assert taken.keys() == {step.FOREACH, "lun"} and min(taken.values()) > 0
    assert len(script.told) == 2 and script.average.optimization_step == 2
    rows = bench("report").times_of(taken, "CPU s", step.SCRIPT, step.FOREACH)
    assert next(row.beside for row in rows) == {f"over {step.FOREACH}": 1.0}
