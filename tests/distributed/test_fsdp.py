"""FSDP2 on two ranks against one process with the same global batch, and checkpoints that change strategy."""

from pathlib import Path

import pytest
from support.ranks import Ranks
from support.runs import make_pictures, newest_run
from support.together import averaged, busy, distance, last, rows, tiny, train

BLOCKS = "lightning.trainer.strategy.params.block_size=500"
SHARDED = ["lightning.trainer.devices=2", "lightning.trainer.strategy.target=lun.strategies.fsdp.FSDP", BLOCKS]
MICRO = ["data.params.batch_size=1", "lightning.trainer.accumulate_grad_batches=2"]
ONE = ["data.params.batch_size=4"]
SAME = ["model.params.unet_config.params.dropout=0.0", "lightning.trainer.max_steps=6"]
STILL = ["lightning.trainer.max_steps=1", "model.base_learning_rate=0.0"]


@pytest.fixture(scope="module")
def runs(ranks: Ranks, pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six steps of four pictures in micro-batches of one with plain gradient descent: `one`, `two`; and `start`."""
    folder = tmp_path_factory.mktemp("fsdp")
    words = tiny(pictures, *SAME, *busy(make_pictures(folder / "validation", 5, seed=1)))
    assert ranks(train, folder / "two", [*words, *SHARDED, *MICRO]) == [0, 0]
    assert train(folder / "one", [*words, *ONE]) == 0
    assert train(folder / "start", [*tiny(pictures, *SAME), *ONE, *STILL]) == 0
    return folder


def test_plain_descent_ends_at_the_weights_of_one_process(runs: Path) -> None:
    two, one, start = (last(runs / name) for name in ("two", "one", "start"))
    assert distance(two["state_dict"], one["state_dict"], start["state_dict"]) < 1e-4
    assert distance(averaged(two), averaged(one), averaged(start)) < 1e-4


def test_a_checkpoint_of_shards_has_the_keys_of_one_process(runs: Path) -> None:
    two, one = last(runs / "two"), last(runs / "one")
    assert two.keys() == one.keys()
    assert list(two["state_dict"]) == list(one["state_dict"])
    assert two["lun"]["position"] == one["lun"]["position"]
    assert two["ema"] == one["ema"]


def test_losses_of_training_and_validation_are_those_of_one_process(runs: Path) -> None:
    two, one = rows(runs / "two"), rows(runs / "one")
    assert {"val/loss_simple", "val/loss_simple_ema"} <= one[2].keys()
    for step in one:
        assert two[step] == pytest.approx(one[step], rel=1e-4)


def test_everything_beside_the_steps_is_written_once(runs: Path) -> None:
    two, one = newest_run(runs / "two"), newest_run(runs / "one")
    files = [sorted(path.name for path in run.rglob("*") if path.suffix in (".png", ".ckpt")) for run in (two, one)]
    assert files[0] == files[1] and "last.ckpt" in files[0]
