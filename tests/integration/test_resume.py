"""k steps, resume, N - k steps is N steps straight, bit for bit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.runs import load, newest_run

Lun = Callable[..., int]
STEPS = 12


def differences(a: Any, b: Any, at: str = "") -> list[str]:
    """Where two checkpoints differ in any bit."""
    if isinstance(a, torch.Tensor):
        return [] if torch.equal(a, b) and a.dtype == b.dtype else [at]
    if isinstance(a, dict):
        found = [f"{at}.{key} on one side only" for key in a.keys() ^ b.keys()]
        return found + [d for key in a.keys() & b.keys() for d in differences(a[key], b[key], f"{at}.{key}")]
    if isinstance(a, list | tuple):
        same = len(a) == len(b)
        return (
            [d for i, (x, y) in enumerate(zip(a, b, strict=False)) for d in differences(x, y, f"{at}[{i}]")]
            if same
            else [at]
        )
    return [] if a == b else [at]


def final_state(logs: Path) -> dict[str, Any]:
    """The last checkpoint without what names the attempt."""
    checkpoint = load(newest_run(logs) / "checkpoints/last.ckpt")
    checkpoint.pop("callbacks", None)
    for name in ("attempt", "resumed_from"):
        checkpoint["lun"].pop(name)
    return checkpoint


@pytest.mark.parametrize(
    ("cuts", "settings"),
    [
        ([5], []),
        ([3, 7, 8], ["lightning.trainer.accumulate_grad_batches=3"]),
        ([6, 11], ["data.params.num_workers=2"]),
        ([4], ["lightning.trainer.precision=bf16-mixed", "data.params.batch_size=4"]),
    ],
    ids=["mid-epoch", "accumulation, three times", "workers", "bf16"],
)
def test_a_chain_of_resumes_equals_the_straight_run(
    lun: Lun, tmp_path: Path, cuts: list[int], settings: list[str]
) -> None:
    assert lun("-t", "-n", "straight", *settings) == 0
    straight = final_state(tmp_path / "logs")
    assert straight["lun"]["position"]["step"] == STEPS

    first, *later = [*cuts, STEPS]
    horizon = f"model.params.scheduler_config.params.total_steps={STEPS}"
    assert lun("-t", "-n", "chain", *settings, horizon, f"lightning.trainer.max_steps={first}") == 0
    run = newest_run(tmp_path / "logs")
    for steps in later:
        assert lun("-r", str(run), "-t", f"lightning.trainer.max_steps={steps}", base=False) == 0
        assert newest_run(tmp_path / "logs") == run
    assert differences(straight, final_state(tmp_path / "logs")) == []


def test_another_seed_gives_another_run(lun: Lun, tmp_path: Path) -> None:
    states = []
    for seed in ("0", "1"):
        assert lun("-t", "-n", f"seed{seed}", "-s", seed, "lightning.trainer.max_steps=3") == 0
        states.append(final_state(tmp_path / "logs"))
    assert any("model.diffusion_model" in place for place in differences(*states))
