"""Runs whose blocks stream from main memory."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.equality import differences, final_state
from support.runs import newest_run

Lun = Callable[..., int]
LORA = (
    "model.params.adapter_config={target: ldm.adapters.Adapters, params: {rules: {all: "
    "{match: 'unet.*attn*', kind: {target: ldm.adapters.LoRA, params: {rank: 2, dropout: 0.3}}}}}}"
)
SWAP = "lightning.callbacks.swap={target: lun.callbacks.BlockSwap}"


def test_a_run_whose_blocks_are_streamed_is_the_plain_one_to_the_bit(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Weights, averages, the optimizer's states, and the names of them all."""
    states = []
    for swap in ([], [SWAP]):
        assert lun("-t", LORA, *swap, "model.params.cond_stage_trainable=false", "lightning.trainer.max_steps=4") == 0
        states.append(final_state(newest_run(tmp_path / "logs")))
    assert differences(*states) == []
    assert "swap     14 of 14 blocks in main memory" in capsys.readouterr().out
