"""Whole runs in each precision, and what they keep in which."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.runs import load, newest_run

Lun = Callable[..., int]
MASTER = "lightning.trainer.precision=bf16-master"
FROZEN = "model.params.cond_stage_trainable=false"


def ended(lun: Lun, tmp_path: Path, *words: str) -> dict[str, torch.Tensor]:
    assert lun("-t", FROZEN, "lightning.trainer.max_steps=3", *words) == 0
    return load(newest_run(tmp_path / "logs") / "checkpoints/last.ckpt")["state_dict"]


def kinds(state: dict[str, torch.Tensor]) -> dict[str, set[torch.dtype]]:
    """The dtypes of each part, without the averages."""
    parts = ("model.diffusion_model.", "first_stage_model.", "cond_stage_model.", "model_ema.diffusion")
    return {part: {v.dtype for k, v in state.items() if k.startswith(part)} for part in parts}


@pytest.mark.parametrize(
    ("recipe", "first_stage", "text"),
    [
        ("Bf16Mixed", torch.bfloat16, torch.bfloat16),
        ("Fp16Mixed", torch.float32, torch.float16),  # the first stage overflows in float16
    ],
)
def test_frozen_parts_can_be_kept_in_half_precision(
    recipe: str, first_stage: torch.dtype, text: torch.dtype, lun: Lun, tmp_path: Path
) -> None:
    precision = f"{{target: lun.strategies.precision.{recipe}, params: {{frozen_half: true}}}}"
    state = ended(lun, tmp_path, f"lightning.trainer.precision={precision}")
    assert list(kinds(state).values()) == [{torch.float32}, {first_stage}, {text}, {torch.float32}]


def test_bf16_true_trains_weights_in_bfloat16_and_averages_them_in_fp32(lun: Lun, tmp_path: Path) -> None:
    state = ended(lun, tmp_path, "lightning.trainer.precision=bf16-true")
    assert list(kinds(state).values()) == [{torch.bfloat16}] * 3 + [{torch.float32}]
    moments = load(newest_run(tmp_path / "logs") / "checkpoints/last.ckpt")["optimizer_states"][0]["state"]
    assert {state["exp_avg"].dtype for state in moments.values()} == {torch.float32}


def test_bf16_master_keeps_and_averages_weights_in_fp32_that_32_goes_on_from(lun: Lun, tmp_path: Path) -> None:
    """Of three steps at a rate of 1e-6 bfloat16 would keep next to nothing."""
    master = ended(lun, tmp_path, MASTER, "model.base_learning_rate=1e-6")
    assert list(kinds(master).values()) == [{torch.float32}, {torch.bfloat16}, {torch.bfloat16}, {torch.float32}]
    exact = ended(lun, tmp_path, "model.base_learning_rate=1e-6")
    moved = [name for name in exact if name.startswith("model.diffusion_model.")]
    far = max(float((master[name] - exact[name]).abs().max()) for name in moved)
    assert 0 < far < 6e-6  # as far as two ways can part in three steps of AdamW


def test_bf16_master_is_refused_by_check_where_it_has_no_effect(lun: Lun, capsys: pytest.CaptureFixture[str]) -> None:
    rules = "{attention: {match: unet.*attn*, kind: {target: ldm.adapters.LoRA}}}"
    adapters = f"model.params.adapter_config={{target: ldm.adapters.Adapters, params: {{rules: {rules}}}}}"
    assert lun("--check", MASTER, FROZEN, adapters) == 2
    assert "error[CFG08]: bf16-master has nothing to keep a master of" in capsys.readouterr().err


def test_a_combination_that_cannot_train_is_refused_before_the_data_is_looked_at(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fsdp, empty = "lightning.trainer.strategy=fsdp", tmp_path / "none"
    empty.mkdir()
    assert lun("-t", fsdp, "lightning.trainer.precision=16-mixed", data=empty) == 2
    told = capsys.readouterr().err
    assert "error[CFG08]: precision 16-mixed cannot be used with strategy fsdp" in told
    assert not (tmp_path / "logs").exists()
