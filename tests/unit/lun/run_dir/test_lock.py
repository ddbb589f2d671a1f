import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
from support.locks import FORKS, another_process

from ldm.errors import Fault
from lun.run_dir.lock import NAME, NOBODY, Holder, RunLock, one_writer, take_over


def test_the_first_process_gets_the_lock_and_says_who_it_is(tmp_path: Path) -> None:
    with one_writer(tmp_path) as holder:
        assert holder == NOBODY
        stored = json.loads((tmp_path / NAME).read_text())
        assert (stored["host"], stored["pid"]) == (socket.gethostname(), os.getpid())
    assert (tmp_path / NAME).read_text() == ""


def test_a_second_process_is_told_who_holds_it(tmp_path: Path) -> None:
    with another_process(tmp_path) as process, one_writer(tmp_path) as holder:
        assert f"process {process.pid} on {socket.gethostname()}" in holder


def test_a_killed_process_leaves_no_lock_behind(tmp_path: Path) -> None:
    with another_process(tmp_path) as process:
        process.kill()
        process.join()
        with one_writer(tmp_path) as holder:
            assert holder == NOBODY


def test_a_process_that_was_started_from_the_holder_does_not_hold_it(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    assert lock.take() is None
    ours, theirs = FORKS.Pipe()
    child = FORKS.Process(target=lambda pipe: pipe.recv(), args=(theirs,), daemon=True)
    child.start()
    lock.give_back()
    with another_process(tmp_path), one_writer(tmp_path) as holder:
        assert holder != NOBODY and str(child.pid) not in holder
    ours.send(None)
    child.join()


def test_taking_over_stops_the_other_process_and_waits_for_it(tmp_path: Path) -> None:
    with another_process(tmp_path) as process:
        take_over(tmp_path, patience=20, pause=0.01)
        process.join()
        assert process.exitcode == -15
        with one_writer(tmp_path) as holder:
            assert holder == NOBODY


def test_a_process_of_another_machine_cannot_be_stopped_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = Holder("another-host", 7, "2026-01-01T00:00:00")
    monkeypatch.setattr(RunLock, "take", lambda self: elsewhere)
    with pytest.raises(Fault) as caught:
        take_over(tmp_path)
    assert caught.value.id == "RES06"
    assert "another-host" in caught.value.why


@pytest.mark.parametrize("text", ["", "{", "[]", '{"host": "x"}', '"text"'])
def test_a_lock_file_that_says_nothing_is_a_free_one(text: str, tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(text)
    with one_writer(tmp_path) as holder:
        assert holder == NOBODY


@pytest.mark.parametrize(("pid", "free"), [(2**30, True), (1, False)])
def test_where_a_disk_has_no_locks_a_living_holder_counts(
    pid: int, free: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*given: Any) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("lun.run_dir.lock.lock_for_process", no_locks)
    (tmp_path / NAME).write_text(json.dumps({"host": socket.gethostname(), "pid": pid, "since": "before"}))
    with one_writer(tmp_path) as holder:
        assert (holder == NOBODY) is free
