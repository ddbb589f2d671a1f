"""What rank 0 decides for all."""

import socket

import pytest

from lun.run_dir.first_rank import FirstRank


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No launcher's variables; what rank 0 leaves in the environment is undone."""
    for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK", "LUN_SEED"):
        monkeypatch.setenv(name, "")
    return monkeypatch


def test_ranks_started_from_the_first_inherit_its_decision(alone: pytest.MonkeyPatch) -> None:
    assert FirstRank().decides("seed", lambda: "17") == "17"
    alone.setenv("LOCAL_RANK", "1")
    assert FirstRank().decides("seed", lambda: "another") == "17"


def test_ranks_of_another_launcher_ask_where_the_group_will_meet(alone: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = ("127.0.0.1", probe.getsockname()[1])
    first = FirstRank(place)
    assert first.decides("seed", lambda: "23") == "23"
    alone.setenv("RANK", "1")
    alone.setenv("LUN_SEED", "")
    assert FirstRank(place).decides("seed", lambda: "another") == "23"
