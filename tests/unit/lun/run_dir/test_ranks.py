"""Which process this is."""

import pytest

from lun.run_dir.ranks import process_rank

VARIABLES = ("RANK", "SLURM_PROCID", "LOCAL_RANK", "NODE_RANK")


@pytest.mark.parametrize(
    ("told", "rank"),
    [
        ({}, 0),
        ({"RANK": "3", "LOCAL_RANK": "1"}, 3),
        ({"SLURM_PROCID": "5"}, 5),
        ({"LOCAL_RANK": "1"}, 1),
        ({"LOCAL_RANK": ""}, 0),
        ({"NODE_RANK": "0", "LOCAL_RANK": "2"}, 2),
        ({"NODE_RANK": "1", "LOCAL_RANK": "0"}, 1),
        ({"NODE_RANK": "1", "RANK": "8", "LOCAL_RANK": "0"}, 8),
    ],
)
def test_the_rank_is_what_the_launcher_says(monkeypatch: pytest.MonkeyPatch, told: dict[str, str], rank: int) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    assert process_rank() == rank
