"""Metrics as curves, however long, torn or odd the file is."""

import json

import pytest
from support.run_folder import log_metrics

from lun.report.curves import POINTS, read_curves


def write(run, *lines):
    (run / "metrics.jsonl").write_bytes(b"".join(line if isinstance(line, bytes) else line.encode() for line in lines))


def line(step, **metrics):
    return json.dumps({"step": step, "time": 1.8e9 + step, **metrics}) + "\n"


def test_curves_have_steps_and_values_by_name_and_tell_the_pace(tmp_path):
    log_metrics(tmp_path, {step: {"a": step / 10, "b": 1} for step in (10, 20, 30)})
    curves = read_curves(tmp_path)
    assert (curves.by_name["a"].steps, curves.by_name["a"].values) == ([10, 20, 30], [1.0, 2.0, 3.0])
    assert (curves.step, curves.time, curves.seconds_a_step, curves.left_out) == (30, 1.8e9 + 15, 0.5, [])


def test_broken_lines_are_left_out_and_counted(tmp_path):
    write(tmp_path, line(1, a=1), '{"step": 2, "a"\n', b"\xff\xfe\n", "[]\n", '{"step": "x"}\n', "\n", line(3, a=3))
    curves = read_curves(tmp_path)
    assert curves.by_name["a"].steps == [1, 3]
    assert curves.left_out == ["4 broken lines of metrics.jsonl"]


def test_a_line_that_is_being_written_is_not_read_yet(tmp_path):
    write(tmp_path, line(1, a=1), line(2, a=2)[:-1])
    assert read_curves(tmp_path).by_name["a"].steps == [1]
    assert read_curves(tmp_path).left_out == []


def test_a_number_that_is_not_finite_is_a_gap_and_is_told(tmp_path):
    write(tmp_path, line(1, a=1.0), line(2, a="nan"), line(3, a="-inf"), line(4, a="word", b=True))
    curves = read_curves(tmp_path)
    assert curves.by_name["a"].values == [1.0, None, None] and "b" not in curves.by_name
    assert curves.left_out == ["a was not a finite number 2 times"]


def test_what_a_resume_undid_is_left_out(tmp_path):
    write(tmp_path, *(line(step, a=0) for step in (1, 2, 3)), line(2, a=9), line(3, a=9))
    curves = read_curves(tmp_path)
    assert (curves.by_name["a"].steps, curves.by_name["a"].values) == ([1, 2, 3], [0, 9, 9])
    assert curves.left_out == ["1 line that a resume from an earlier step undid"]
    write(tmp_path, *(line(step, a=0) for step in (1, 3, 5)), line(2, a=9))
    assert read_curves(tmp_path).by_name["a"].steps == [1, 2]
    assert read_curves(tmp_path).left_out == ["2 lines that a resume from an earlier step undid"]


def test_frequent_lines_are_thinned_and_rare_ones_are_kept(tmp_path):
    rare = range(500, 10_001, 500)
    lines = [line(s, train=s) + (line(s, **{"val/loss": s}) if s in rare else "") for s in range(1, 10_001)]
    write(tmp_path, *lines)
    curves = read_curves(tmp_path)
    assert curves.by_name["val/loss"].steps == list(rare)
    train = curves.by_name["train"]
    assert POINTS / 2 < len(train.steps) <= POINTS + 1 and train.steps[-1] == 10_000
    assert curves.left_out == ["1,450 of 10,020 lines of metrics.jsonl are drawn, evenly chosen"]


def test_many_metrics_have_fewer_points_each(tmp_path):
    log_metrics(tmp_path, {step: {f"m{place}": 1 for place in range(700)} for step in range(300)})
    curves = read_curves(tmp_path)
    assert sum(len(curve.steps) for curve in curves.by_name.values()) <= 160_000
    assert "100 of 700 metrics" in curves.left_out


@pytest.mark.parametrize("make", ["nothing", "folder"])
def test_a_file_that_is_not_there_is_told(tmp_path, make):
    if make == "folder":
        (tmp_path / "metrics.jsonl").mkdir()
    curves = read_curves(tmp_path)
    assert curves.by_name == {} and len(curves.left_out) == 1
