"""What a start settles by itself."""

import logging
from pathlib import Path

import pytest

from lun.data.index.looked_once import as_column, one_look
from lun.run.rate import rate_of
from lun.run.session import run_name, settle_seed, settle_start
from lun.run_dir.first_rank import FirstRank


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["configs/training-lightning.yaml", "configs/demo/emoji.yaml"], "emoji"),
        (["configs/demo/emoji.yaml", "configs/options/bf16.yaml"], "emoji"),
        ([], "run"),
    ],
)
def test_a_run_is_named_by_the_last_config_that_is_no_overlay(files: list[str], name: str) -> None:
    assert run_name(files) == name


@pytest.mark.parametrize(("asked", "seed"), [(None, 0), (0, 0), (7, 7)])
def test_the_seed_is_zero_unless_another_is_asked_for(asked: int | None, seed: int) -> None:
    assert settle_seed(asked, FirstRank()) == seed


def test_minus_one_draws_a_seed_and_shows_it(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUN_SEED", "")  # what other ranks are told by, for as long as the program runs
    with caplog.at_level(logging.INFO):
        drawn = {settle_seed(-1, FirstRank()) for _ in range(3)}
    assert len(drawn) == 3 and min(drawn) >= 0
    assert all(str(seed) in caplog.text for seed in drawn)


def test_a_model_section_without_a_rate_trains_at_the_default() -> None:
    assert rate_of({}) == (1.0e-4, "none")
    assert rate_of({"base_learning_rate": 1e-5, "scale_lr": True}) == (1e-5, "linear")


def test_the_ranks_of_one_start_share_what_they_see(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def sees(rank: int, ranks: int = 2) -> bool:
        monkeypatch.setenv("LOCAL_RANK", str(rank))
        settle_start(ranks, FirstRank())
        with one_look(tmp_path, "any", lambda: b"") as look:
            look.seen = lambda: as_column("something")
        return look.found is not None

    monkeypatch.setenv("LUN_CACHE", str(tmp_path))
    monkeypatch.setenv("LUN_START", "")
    assert [sees(0), sees(1), sees(0), sees(1)] == [False, True, False, True]
    assert not sees(0, ranks=1)
