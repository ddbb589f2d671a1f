"""A weighting that is learned, in whole runs: a group of its own, in checkpoints, and nowhere else."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.runs import TINY, load, newest_run
from support.together import averaged, rows

Lun = Callable[..., int]
NAME = "objective.weighting.log_variance"
ADAPTERS = (
    "model.params.adapter_config={target: ldm.adapters.Adapters, params: {rules: "
    "{all: {match: 'unet.*attn*', kind: {target: ldm.adapters.LoRA, params: {rank: 2}}}}}}"
)


@pytest.mark.parametrize("adapters", [[], [ADAPTERS]], ids=["whole weights", "adapters"])
def test_a_learned_weighting_trains_at_its_own_rate_and_stays_out_of_averages_and_exports(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str], adapters: list[str]
) -> None:
    alone = ["model.params.cond_stage_trainable=false", "lightning.trainer.max_steps=2"]
    assert lun("-t", "--base", str(TINY), "uncertainty", *alone, *adapters) == 0
    said = capsys.readouterr().out
    assert "128 in 1 tensors at 1.0e-02 (weighting)" in said
    run = newest_run(tmp_path / "logs")
    state = load(run / "checkpoints/last.ckpt")["state_dict"]
    assert state[NAME].abs().max() > 0
    assert averaged({"state_dict": state}) and not any("weighting" in name for name in averaged({"state_dict": state}))
    logged = rows(tmp_path / "logs")[2]
    assert logged["train/loss"] != logged["train/loss_simple"]
