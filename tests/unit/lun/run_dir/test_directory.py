import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from ldm.errors import Fault
from ldm.files.replacing import replace_text
from lun.run_dir.directory import VARIABLE, RunDirectory, stamp
from lun.run_dir.run_json import RunRecord, program_commit, versions

NOW = datetime(2026, 11, 20, 11, 13, 2)
RECORD = RunRecord(status="running", started="2026-11-20T11:13:02", argv=["main.py", "-t"], seed=7)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for variable in (VARIABLE, "RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(VARIABLE, "")  # so that what `create` sets is undone


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"name": "demo"}, "2026-11-20T11-13-02_demo"),
        ({"name": "demo", "postfix": "-a"}, "2026-11-20T11-13-02_demo-a"),
        ({"name": ""}, "2026-11-20T11-13-02"),
        ({"name": "v1", "data_root": "/in/pony/", "datadir_in_name": True}, "pony_2026-11-20T11-13-02_v1"),
        ({"name": "v1", "data_root": "/in/pony/", "datadir_in_name": False}, "2026-11-20T11-13-02_v1"),
    ],
)
def test_the_name_is_time_name_and_postfix_after_the_data_if_asked(tmp_path, arguments, name):
    run = RunDirectory.create(tmp_path / "logs", **arguments, now=NOW)
    assert run.path == tmp_path / "logs" / name
    assert run.configs.is_dir()
    assert run.checkpoints.is_dir()


def test_an_existing_directory_is_never_reused(tmp_path):
    names = [RunDirectory.create(tmp_path, "a", now=NOW).name for _ in range(3)]
    assert names == ["2026-11-20T11-13-02_a", "2026-11-20T11-13-02_a-2", "2026-11-20T11-13-02_a-3"]


def test_other_ranks_take_the_directory_of_the_first(tmp_path, monkeypatch):
    run = RunDirectory.create(tmp_path, "a", now=NOW)
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert RunDirectory.create(tmp_path, "a", now=datetime(2027, 1, 1)) == run
    assert len(list(tmp_path.iterdir())) == 1


def test_a_rank_that_was_not_told_the_directory_is_a_fault(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    with pytest.raises(Fault, match="CLI04"):
        RunDirectory.create(tmp_path, "a", now=NOW)


def test_a_directory_chosen_for_all_ranks_beforehand_is_made_by_the_first(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "chosen"))
    assert RunDirectory.create(tmp_path, "a", now=NOW).path == tmp_path / "chosen"


def test_a_place_that_cannot_be_written_is_a_fault(tmp_path):
    (tmp_path / "logs").touch()
    with pytest.raises(Fault, match="DSK01"):
        RunDirectory.create(tmp_path / "logs", "a", now=NOW)


def test_latest_follows_the_newest_run_by_a_relative_link(tmp_path):
    for name in ("a", "b"):
        run = RunDirectory.create(tmp_path, name, now=NOW)
        run.link_latest()
    assert os.readlink(tmp_path / "latest") == run.name
    assert (tmp_path / "latest").resolve() == run.path


@pytest.mark.parametrize("make", [Path.mkdir, Path.touch])
def test_something_else_called_latest_is_left_alone(tmp_path, make, caplog):
    caplog.set_level("INFO")
    make(tmp_path / "latest")
    RunDirectory.create(tmp_path, "a", now=NOW).link_latest()
    assert not (tmp_path / "latest").is_symlink()
    assert "left as it is" in caplog.text


def test_configs_are_kept_under_their_times_and_the_newest_as_resolved(tmp_path):
    run = RunDirectory.create(tmp_path, "a", now=NOW)
    run.save_configs("p: 1\n", "l: 1\n", "r: 1\n", now=NOW)
    earlier = datetime(2026, 11, 20, 11, 13, 3)
    os.utime(run.resolved_config, (earlier.timestamp(),) * 2)
    run.save_configs("p: 2\n", "l: 2\n", "r: 2\n", now=datetime(2026, 11, 21))
    assert {path.name: path.read_text() for path in run.configs.iterdir()} == {
        "2026-11-20T11-13-02-project.yaml": "p: 1\n",
        "2026-11-20T11-13-02-lightning.yaml": "l: 1\n",
        "2026-11-20T11-13-03-resolved.yaml": "r: 1\n",
        "2026-11-21T00-00-00-project.yaml": "p: 2\n",
        "2026-11-21T00-00-00-lightning.yaml": "l: 2\n",
        "resolved.yaml": "r: 2\n",
    }


def test_two_resumes_in_one_second_lose_no_config(tmp_path):
    run = RunDirectory.create(tmp_path, "a", now=NOW)
    for text in ("1", "2", "3"):
        run.save_configs("", "", text, now=NOW)
        os.utime(run.resolved_config, (NOW.timestamp(),) * 2)
    assert sorted(path.read_text() for path in run.configs.glob("*resolved*.yaml")) == ["1", "2", "3"]


def test_the_record_of_a_run_comes_back(tmp_path):
    run = RunDirectory.create(tmp_path, "a", now=NOW)
    assert run.record() is None
    run.write_record(RECORD)
    done = replace(RECORD, status="done", exit_code=0, steps=900)
    run.write_record(done)
    assert run.record() == done
    assert json.loads(run.record_file.read_text())["earlier"] == []


def test_records_of_earlier_attempts_stay(tmp_path):
    run = RunDirectory.create(tmp_path, "a", now=NOW)
    for attempt in (1, 2, 3):
        for status in ("running", "stopped"):
            run.write_record(replace(RECORD, attempt=attempt, status=status))
    stored = json.loads(run.record_file.read_text())
    assert stored["attempt"] == 3
    assert [(row["attempt"], row["status"]) for row in stored["earlier"]] == [(2, "stopped"), (1, "stopped")]


def test_a_record_that_is_damaged_or_of_another_version_does_not_stand_in_the_way(tmp_path):
    run = RunDirectory.create(tmp_path, "a", now=NOW)
    for text in ("{", "[]", '{"status": "done"}'):
        run.record_file.write_text(text)
        assert run.record() is None
    run.record_file.write_text('{"status": "done", "started": "x", "argv": [], "colour": "red"}')
    assert run.record().status == "done"


def test_a_write_that_fails_leaves_the_old_text(tmp_path, monkeypatch):
    path = tmp_path / "run.json"
    replace_text(path, "old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        replace_text(path, "new")
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["run.json"]


def test_times_sort_as_text():
    assert stamp(NOW) == "2026-11-20T11-13-02"


def test_versions_name_what_decides_a_result():
    assert {"python", "torch", "lightning"} <= versions().keys()


def test_the_commit_is_that_of_the_checkout_or_none(tmp_path, monkeypatch):
    monkeypatch.setattr("lun.run_dir.run_json.__file__", str(tmp_path / "lun/run_dir/run_json.py"))
    assert program_commit() is None
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(
        "lun.run_dir.run_json._git", lambda root, *arguments: "abc" if arguments[0] == "rev-parse" else ""
    )
    assert program_commit() == "abc"
    monkeypatch.setattr("lun.run_dir.run_json._git", lambda root, *arguments: "abc")
    assert program_commit() == "abc+"
