"""Several sets on two ranks, one of which keeps the base's predictions, against one process with the same batch."""

from pathlib import Path

import pytest
import yaml
from support.ranks import Ranks
from support.runs import make_pictures
from support.together import MICRO, ONE, SAME, STILL, distance, last, rows, tiny, train

TWO = ["lightning.trainer.devices=2", "lightning.trainer.strategy=ddp", *MICRO]
LORA = [
    "model.params.adapter_config={target: ldm.adapters.Adapters, params: {rules: {all: {match: 'unet.*to_*',"
    " kind: {target: ldm.adapters.LoRA, params: {rank: 2}}}}}}",
    "model.params.cond_stage_trainable=false",
    "model.base_learning_rate=1.0",
]


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("sets")
    sets = {
        name: {
            "target": "lun.data.local.Local",
            "params": {"data_root": str(make_pictures(folder / name, 5 + seed, seed)), "size": 8},
            "kind": kind,
        }
        for seed, (name, kind) in enumerate({"new": "train", "kept": "prior"}.items())
    }
    (folder / "sets.yaml").write_text(yaml.safe_dump({"data": {"params": {"train": {"sets": sets}}}}))
    both = tiny(folder, *SAME, *LORA)
    return [both[0], both[1], str(folder / "sets.yaml"), *both[4:]]


@pytest.mark.slow
def test_sets_with_one_that_keeps_the_base_train_on_two_ranks_as_on_one(
    ranks: Ranks, words: list[str], tmp_path: Path
) -> None:
    alone = [*ONE, "lightning.trainer.accumulate_grad_batches=1"]
    assert train(tmp_path / "one", [*words, *alone]) == 0
    assert train(tmp_path / "start", [*words, *alone, *STILL]) == 0
    assert ranks(train, tmp_path / "two", [*words, *TWO]) == [0, 0]
    ends = [last(tmp_path / name)["state_dict"] for name in ("two", "one", "start")]
    assert distance(*ends) < 1e-4
    one, two = rows(tmp_path / "one"), rows(tmp_path / "two")
    by_set = [{name: row[name] for name in row if name.startswith("train/loss/")} for row in one.values()]
    assert {name for told in by_set for name in told} == {"train/loss/new", "train/loss/kept"}
    for step, told in zip(one, by_set, strict=True):
        assert {name: two[step][name] for name in told} == pytest.approx(told, rel=1e-3, abs=1e-9)
        assert two[step].keys() == one[step].keys()
