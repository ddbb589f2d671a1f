"""Which strategy a run trains under, and on how many ranks."""

from typing import Any

import pytest

from ldm.errors import Fault
from lun.run.trainer import find_ranks
from lun.strategies.choice import with_strategy


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("asked", "ranks"),
    [
        ({}, 1),
        ({"devices": 1}, 1),
        ({"devices": "1"}, 1),
        ({"devices": "auto"}, 1),
        ({"devices": 2}, 2),
        ({"devices": "3"}, 3),
        ({"devices": 2, "strategy": "ddp"}, 2),
        ({"devices": 2, "num_nodes": 4}, 8),
        ({"devices": "auto", "num_nodes": 2}, 2),
    ],
)
def test_ranks_are_counted_for_every_spelling_of_devices_and_nodes(asked: dict[str, Any], ranks: int) -> None:
    assert find_ranks({"accelerator": "cpu", **asked})[0] == ranks


def test_several_devices_train_under_ddp_unless_another_strategy_is_named() -> None:
    ddp = {"target": "lun.strategies.ddp.DDP"}
    assert with_strategy({"accelerator": "cpu", "devices": 2})["strategy"] == ddp
    assert with_strategy({"accelerator": "cpu", "devices": 1})["strategy"] == "auto"
    assert with_strategy({"accelerator": "cpu", "strategy": "ddp"})["strategy"] == ddp
    assert with_strategy({"strategy": "single_device"})["strategy"] == "single_device"


def test_strategies_of_lightnings_that_start_processes_amid_the_program_are_refused() -> None:
    with pytest.raises(Fault, match=r"CFG08.*ddp_spawn"):
        with_strategy({"strategy": "ddp_spawn"})


def test_a_strategy_that_nobody_knows_is_a_fault_with_the_nearest_name() -> None:
    with pytest.raises(Fault, match=r"CFG08.*no strategy fdsp[\s\S]*did you mean fsdp"):
        with_strategy({"strategy": "fdsp"})


def test_rank_zero_needs_a_meeting_place_for_ranks_that_another_launcher_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert find_ranks({"accelerator": "cpu", "devices": 2})[1].meets_at is None
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 2, "GROUP_RANK": 0}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29501")
    assert find_ranks({"accelerator": "cpu", "devices": 2})[1].meets_at == ("10.0.0.1", 29501)
