"""Whether a run trains, how far it is and how long it has to go."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.run_folder import RECORD, make_run

from lun.report.curves import Curves
from lun.report.run_state import run_state, ways_on
from lun.run_dir.directory import RunDirectory
from lun.run_dir.run_json import RunRecord

RUNNING = replace(RunRecord(**RECORD), status="running", exit_code=None, ended="", steps=0)
CURVES = Curves(step=50, time=1.8e9, seconds_a_step=2.0)


def state_of(run: Path, record: RunRecord | None = RUNNING, writing: bool = False, later: float = 0.0):
    return run_state(RunDirectory(run), record, CURVES, writing, 1.8e9 + later)


def hold(run: Path, host: str, pid: int) -> Path:
    run.mkdir(exist_ok=True)
    (run / ".lock").write_text(json.dumps({"host": host, "pid": pid, "since": "2026-11-20T11:13:02"}))
    return run


def test_a_run_that_trains_tells_the_time_left(tmp_path):
    state = state_of(tmp_path, writing=True)
    assert (state.word, state.step, state.total, state.share, state.left) == ("training", 50, 200, 0.25, 300.0)
    assert state.eta.startswith("5:00, at 20") and state.speed == "2.0 s a step"


def test_a_run_whose_process_is_gone_was_killed(tmp_path):
    assert state_of(tmp_path).word == "killed"
    assert state_of(hold(tmp_path, os.uname().nodename, 2**22 + 1)).word == "killed"
    assert state_of(tmp_path).eta == ""


def test_a_run_of_another_process_here_trains(tmp_path):
    assert state_of(hold(tmp_path, os.uname().nodename, os.getppid())).word == "training"


def test_a_run_on_another_machine_that_says_nothing_is_doubted(tmp_path):
    hold(tmp_path, "far", 5)
    assert state_of(tmp_path).why == "since 2026-11-20 11:13:02"
    assert "nothing was logged for 15 minutes" in state_of(tmp_path, later=1000).why


def test_an_end_tells_its_exit_code_and_a_missing_record_is_said(tmp_path):
    ended = state_of(tmp_path, RunRecord(**RECORD))
    assert (ended.word, ended.why, ended.step) == ("done", "exit code 0, 2026-11-20 11:20:00", 100)
    assert state_of(tmp_path, None).word == "unknown"


@pytest.mark.parametrize("steps, more", [(100, ""), (200, " --max_steps 1200")])
def test_the_ways_on_can_be_pasted(tmp_path, steps, more):
    run = make_run(tmp_path / "a run", steps=steps)
    ways = dict(ways_on(RunDirectory(run), state_of(run, RunRecord(**RECORD | {"steps": steps}))))
    assert ways["go on training"] == f"python main.py -r '{run}' -t{more}"
