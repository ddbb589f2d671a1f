"""The number of CPU threads."""

import logging

import pytest
import torch

from lun.run import threads


@pytest.fixture(autouse=True)
def _keep_the_count(caplog: pytest.LogCaptureFixture) -> object:
    caplog.set_level("INFO", "lun")
    count = torch.get_num_threads()
    yield
    torch.set_num_threads(count)


def test_a_resumed_run_takes_over_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LUN_THREADS", raising=False)
    assert threads.settle_threads(1) == 1
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(("given", "count"), [("1", 1), ("1,4", 1), ("", 3), ("0", 3), ("many", 3)])
def test_a_new_run_takes_openmps_count_and_else_the_cores(
    monkeypatch: pytest.MonkeyPatch, given: str, count: int
) -> None:
    monkeypatch.delenv("LUN_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.setattr(threads, "available_cpus", lambda: 3)
    assert threads.settle_threads(None) == count


def test_the_environment_overrides_and_a_change_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("LUN_THREADS", "2")
    caplog.set_level(logging.INFO)
    assert threads.settle_threads(1) == 2
    assert "sums may differ in their last bits" in caplog.text


@pytest.mark.parametrize(("load", "count", "says"), [(0.9, 2, ""), (1.5, 2, "LUN_THREADS=1"), (6.0, 1, "")])
def test_a_machine_that_is_busy_already_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, load: float, count: int, says: str
) -> None:
    monkeypatch.delenv("LUN_THREADS", raising=False)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    torch.set_num_threads(count)
    caplog.set_level(logging.INFO)
    threads.say_if_crowded()
    assert (says in caplog.text) if says else not caplog.text


def test_who_chose_the_count_is_told_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("LUN_THREADS", "2")
    monkeypatch.setattr("os.getloadavg", lambda: (9.0, 0.0, 0.0))
    torch.set_num_threads(2)
    threads.say_if_crowded()
    assert not caplog.text
