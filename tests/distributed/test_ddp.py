"""DDP on two ranks against one process with the same global batch."""

from pathlib import Path

from support.ranks import Ranks
from support.together import distance, last, tiny, train

TWO = ["lightning.trainer.devices=2", "lightning.trainer.strategy=ddp", "data.params.batch_size=2"]
ONE = ["data.params.batch_size=4"]
SAME = ["model.params.unet_config.params.dropout=0.0", "lightning.trainer.max_steps=6"]


def ended(logs: Path, words: list[str]) -> int:
    return train(logs, words, logs / "run")


def test_plain_descent_ends_at_the_weights_of_one_process(ranks: Ranks, pictures: Path, tmp_path: Path) -> None:
    words = tiny(pictures, *SAME)
    assert ranks(ended, tmp_path / "two", [*words, *TWO]) == [0, 0]
    assert train(tmp_path / "one", [*words, *ONE]) == 0
    assert (
        train(tmp_path / "start", [*words, *ONE, "lightning.trainer.max_steps=1", "model.base_learning_rate=0.0"]) == 0
    )
    two, one, start = (last(tmp_path / name)["state_dict"] for name in ("two", "one", "start"))
    assert distance(two, one, start) < 1e-4
