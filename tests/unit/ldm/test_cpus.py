"""Counting CPUs."""

import math
import os
from pathlib import Path

import pytest

from ldm import cpus


def test_a_containers_quota_limits_the_cores(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert cpus.cpu_quota(tmp_path) == 1.5


@pytest.mark.parametrize("content", ["max 100000\n", "nonsense"])
def test_no_limit_is_no_quota(tmp_path: Path, content: str) -> None:
    (tmp_path / "cpu.max").write_text(content)
    assert cpus.cpu_quota(tmp_path) == math.inf


def test_the_first_version_of_control_groups_is_understood(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu/cpu.cfs_quota_us").write_text("400000\n")
    (tmp_path / "cpu/cpu.cfs_period_us").write_text("100000\n")
    assert cpus.cpu_quota(tmp_path) == 4


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
@pytest.mark.parametrize(("quota", "count"), [("150000 100000", 2), ("max 100000", 4), ("10000 100000", 1)])
def test_the_quota_cuts_down_the_affinity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str, count: int
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(cpus, "CGROUPS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    assert cpus.available_cpus() == count
