"""Adapters over a frozen base on two ranks, against one process with the same global batch."""

from pathlib import Path

import pytest
from support.compvis import config_of, random_checkpoint
from support.ranks import Ranks
from support.runs import TINY, newest_run
from support.together import MICRO, ONE, SAME, STILL, goes_on, last, off, tiny, train

from ldm.files.write import write_safetensors

ADAPTED = [
    "model.params.adapter_config={target: ldm.adapters.Adapters, params: {rules: {"
    "one: {match: 'unet.*attn1*', kind: {target: ldm.adapters.LoRA, params: {rank: 1}}},"
    "two: {match: 'unet.*conv1', kind: {target: ldm.adapters.DoRA, params: {rank: 1}}}}}}",
    "model.params.cond_stage_trainable=false",
]
STRATEGY = "lightning.trainer.strategy={target: lun.strategies.%s}"
TWO = ["lightning.trainer.devices=2", *MICRO]


@pytest.fixture(scope="module")
def words(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    file = tmp_path_factory.mktemp("base") / "sd.safetensors"
    write_safetensors(file, random_checkpoint(config_of([TINY], pictures)))
    return [*tiny(pictures, *SAME), *ADAPTED, "--init-from", str(file)]


@pytest.fixture(scope="module")
def alone(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with `one` and `start`."""
    folder = tmp_path_factory.mktemp("alone")
    assert train(folder / "one", [*words, *ONE]) == 0
    assert train(folder / "start", [*words, *ONE, *STILL]) == 0
    return folder


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("ddp.DDP", id="DDP", marks=pytest.mark.slow),
        pytest.param("fsdp.FSDP, params: {block_size: 500}", id="FSDP"),
    ],
)
def test_two_ranks_end_at_the_adapters_of_one_process_also_where_a_rank_holds_none_of_a_matrix(
    ranks: Ranks, words: list[str], alone: Path, tmp_path: Path, kind: str
) -> None:
    assert ranks(train, tmp_path, [*words, *TWO, STRATEGY % kind]) == [0, 0]
    assert last(tmp_path)["base"] == last(alone / "one")["base"]
    assert off(tmp_path, alone) < 1e-3
    more = ["lightning.trainer.max_steps=5"]
    assert ranks(goes_on, newest_run(tmp_path), more) == [0, 0]
    assert last(tmp_path)["lun"]["position"]["step"] == 5
