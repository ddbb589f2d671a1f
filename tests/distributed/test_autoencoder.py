"""An autoencoder against its discriminator on two ranks, which have to weigh the two forces alike."""

from pathlib import Path

import pytest
from support.ranks import Ranks
from support.runs import TINY, make_pictures
from support.together import last, off, rows, train

BASE = ["--base", str(TINY.with_name("tiny-autoencoder.yaml"))]
LOSS = "model.params.lossconfig.params"
# The discriminator, which normalises by batch, from step 2 on.
PLAIN = [f"{LOSS}.disc_start=2", f"{LOSS}.learn_logvar=false"]
PLAIN += ["model.params.optimizer_config={target: torch.optim.SGD, params: {}}", "model.base_learning_rate=0.01"]
PLAIN += ["lightning.trainer.gradient_clip_val=null", "model.params.scheduler_config=null"]
SIX = "lightning.trainer.max_steps=6"
TWO = ["lightning.trainer.devices=2", "data.params.batch_size=1", "lightning.trainer.accumulate_grad_batches=2"]
STRATEGIES = {
    "ddp": ["lightning.trainer.strategy=ddp"],
    "fsdp": [
        "lightning.trainer.strategy.target=lun.strategies.fsdp.FSDP",
        "lightning.trainer.strategy.params.block_size=500",
    ],
}
ONE = ["data.params.batch_size=2", "lightning.trainer.accumulate_grad_batches=2"]


@pytest.fixture(scope="module")
def alone(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """`one` in one process and `start`, and the words for both."""
    folder = tmp_path_factory.mktemp("autoencoder")
    validation = make_pictures(folder / "validation", 5, seed=1)
    validated = f"data.params.validation={{target: lun.data.local.Local, params: {{data_root: {validation}, size: 8}}}}"
    words = [*BASE, "--data_root", str(pictures), *PLAIN, validated, "lightning.trainer.val_check_interval=3"]
    assert train(folder / "one", [*words, *ONE, SIX]) == 0
    assert train(folder / "start", [*words, *ONE, "lightning.trainer.max_steps=1", "model.base_learning_rate=0.0"]) == 0
    return folder, words


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_two_ranks_end_at_the_weights_of_one_process(
    strategy: str, alone: tuple[Path, list[str]], ranks: Ranks, tmp_path: Path
) -> None:
    folder, words = alone
    assert ranks(train, tmp_path, [*words, *TWO, *STRATEGIES[strategy], SIX]) == [0, 0]
    assert last(tmp_path)["state_dict"].keys() == last(folder / "one")["state_dict"].keys()
    assert off(tmp_path, folder) < 1e-4
    told, alike = rows(tmp_path), rows(folder / "one")
    assert {"train/d_weight", "val/rec_loss_ema"} <= {name for row in alike.values() for name in row}
    for step in alike:
        assert told[step] == pytest.approx(alike[step], rel=1e-3, abs=1e-6)
