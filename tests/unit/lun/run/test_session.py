"""What a start settles by itself."""

import logging

import pytest

from lun.run.rate import rate_of
from lun.run.session import run_name, settle_seed
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
