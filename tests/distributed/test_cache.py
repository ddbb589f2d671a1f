"""Cached moments and captions where a strategy spreads weights: the run is the plain one of one process."""

import io
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from support.ranks import Ranks
from support.together import ONE, SAME, STILL, distance, last, tiny, train

TWO = ["lightning.trainer.devices=2", "data.params.batch_size=2"]
STRATEGIES = {
    "fsdp": ["lightning.trainer.strategy={target: lun.strategies.fsdp.FSDP, params: {block_size: 500}}"],
    "zero-2": ["lightning.trainer.strategy=deepspeed", "lightning.deepspeed.stage=2"],
}


@pytest.fixture(scope="module")
def alone(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """`one` and `start` without a cache, the text encoder frozen, and the words for them."""
    folder = tmp_path_factory.mktemp("uncached")
    words = [*tiny(pictures, *SAME), "model.params.cond_stage_trainable=false"]
    assert train(folder / "one", [*words, *ONE]) == 0
    assert train(folder / "start", [*words, *ONE, *STILL]) == 0
    return folder, words


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_cached_run_ends_at_the_weights_of_a_plain_one_and_knows_parts_by_their_weights(
    strategy: str, alone: tuple[Path, list[str]], ranks: Ranks, tmp_path: Path
) -> None:
    if strategy == "zero-2":
        pytest.importorskip("deepspeed")
    folder, words = alone
    cached = [*words, *TWO, *STRATEGIES[strategy], f"data.params.cache={{folder: {folder / 'cache'}}}"]
    assert ranks(train, tmp_path, cached) == [0, 0]
    found, one, start = (last(logs)["state_dict"] for logs in (tmp_path, folder / "one", folder / "start"))
    assert distance(found, one, start) < 1e-4
    assert [len(list((folder / "cache" / kind).iterdir())) for kind in ("moments", "text")] == [1, 1]


def test_parts_that_are_cut_up_cannot_be_cached(alone: tuple[Path, list[str]], ranks: Ranks, tmp_path: Path) -> None:
    pytest.importorskip("deepspeed")
    zero = ["lightning.trainer.strategy=deepspeed", "lightning.deepspeed.stage=3", "data.params.cache=true"]
    assert ranks(refusal, tmp_path, [*alone[1], *TWO, *zero]) == [(2, True)] * 2


def refusal(logs: Path, words: list[str]) -> tuple[int, bool]:
    """The exit code, and whether the message names the stage."""
    told = io.StringIO()
    with redirect_stderr(told):
        code = train(logs, words)
    return code, "ZeRO stage 3" in told.getvalue()
