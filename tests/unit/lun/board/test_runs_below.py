"""Which runs lie below a directory."""

import json
import time

from support.run_folder import RECORD, make_run

from lun.board import runs_below as module
from lun.board.runs_below import listed, runs_below


def test_runs_are_found_in_folders_and_not_within_runs_or_behind_links(logs):
    make_run(logs / "a/same/images/inner", samples=False)
    make_run(logs / ".hidden", samples=False)
    runs, left_out = runs_below(logs)
    assert (sorted(runs), left_out) == (["a/same", "b/same"], [])


def test_a_run_itself_is_a_directory_of_one(logs):
    assert list(runs_below(logs / "a/same")[0]) == ["same"]


def test_what_is_not_looked_at_is_told(logs, monkeypatch):
    monkeypatch.setattr(module, "MOST", 1)
    assert runs_below(logs)[1] == ["runs past the first 1"]
    monkeypatch.setattr(module, "SEEN", 2)
    assert runs_below(logs)[1] == ["folders past the first 2 files"]


def test_the_newest_word_comes_first_and_a_broken_run_is_listed(logs):
    (logs / "a/same/metrics.jsonl").write_text("{torn")
    (logs / "a/same/run.json").write_text("[")
    lines = listed(runs_below(logs)[0])
    assert [(one.name, one.state.word) for one in lines] == [("b/same", "done"), ("a/same", "unknown")]


def test_500_runs_take_less_than_two_seconds(tmp_path):
    line = json.dumps({"step": 1, "time": 1.8e9, "train/loss": 0.5, "train/loss_simple": 0.5, "val/loss": 0.25}) + "\n"
    for place in range(500):
        run = tmp_path / f"run-{place:03}"
        (run / "configs").mkdir(parents=True)
        (run / "run.json").write_text(json.dumps(RECORD))
        (run / "metrics.jsonl").write_text(line * 300)
    began = time.process_time()
    lines = listed(runs_below(tmp_path)[0])
    assert len(lines) == 500 and time.process_time() - began < 2
