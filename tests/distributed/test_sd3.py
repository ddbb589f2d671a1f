"""Stable Diffusion 3 on two ranks, against one process with the same global batch."""

from pathlib import Path

import pytest
from support.ranks import Ranks
from support.runs import newest_run
from support.sd3 import small_config
from support.together import MICRO, ONE, STEPS, STILL, goes_on, off, train, until

TWO = ["lightning.trainer.devices=2", *MICRO]
STRATEGY = "lightning.trainer.strategy={target: lun.strategies.%s}"


def test_steps_under_each_strategy_end_at_the_weights_of_one_process(
    ranks: Ranks, pictures: Path, tmp_path: Path
) -> None:
    """Under DDP two of them: the second tells of trained parameters that got no gradient in the first."""
    pytest.importorskip("deepspeed")
    plain = "model.params.optimizer_config={target: torch.optim.SGD, params: {momentum: 0.9}}"
    words = ["--base", str(small_config(tmp_path)), "--data_root", str(pictures), until(STEPS), plain]
    words += ["model.base_learning_rate=0.05", "model.params.scheduler_config=null"]
    assert train(tmp_path / "one", [*words, *ONE]) == 0
    assert train(tmp_path / "start", [*words, *ONE, *STILL]) == 0
    two = tmp_path / "two"
    assert ranks(train, two, [*words, *TWO, STRATEGY % "ddp.DDP", until(2)]) == [0, 0]
    fsdp, zero = (STRATEGY % kind for kind in ("fsdp.FSDP, params: {block_size: 500}", "deepspeed.DeepSpeed"))
    assert ranks(goes_on, newest_run(two), [fsdp, until(3)]) == [0, 0]
    assert ranks(goes_on, newest_run(two), [zero, until(STEPS)]) == [0, 0]
    assert off(two, tmp_path) < 1e-4
