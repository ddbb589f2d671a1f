"""k steps, resume, N - k steps is N steps straight, bit for bit."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.equality import differences, final_state
from support.runs import newest_run

Lun = Callable[..., int]
STEPS = 12


@pytest.mark.parametrize(
    ("cuts", "settings"),
    [
        ([5], ["model.params.cond_stage_lr_multiple=0.5"]),
        ([3, 7, 8], ["lightning.trainer.accumulate_grad_batches=3"]),
        ([6, 11], ["data.params.num_workers=2"]),
        ([4], ["lightning.trainer.precision=bf16-mixed", "data.params.batch_size=4"]),
    ],
    ids=["mid-epoch, text encoder at half the rate", "accumulation, three times", "workers", "bf16"],
)
def test_a_chain_of_resumes_equals_the_straight_run(
    lun: Lun, tmp_path: Path, cuts: list[int], settings: list[str]
) -> None:
    assert lun("-t", "-n", "straight", *settings) == 0
    straight = final_state(newest_run(tmp_path / "logs"))
    assert straight["lun"]["position"]["step"] == STEPS

    first, *later = [*cuts, STEPS]
    horizon = f"model.params.scheduler_config.params.total_steps={STEPS}"
    assert lun("-t", "-n", "chain", *settings, horizon, f"lightning.trainer.max_steps={first}") == 0
    run = newest_run(tmp_path / "logs")
    for steps in later:
        assert lun("-r", str(run), "-t", f"lightning.trainer.max_steps={steps}", base=False) == 0
        assert newest_run(tmp_path / "logs") == run
    assert differences(straight, final_state(newest_run(tmp_path / "logs"))) == []


def test_another_seed_gives_another_run(lun: Lun, tmp_path: Path) -> None:
    states = []
    for seed in ("0", "1"):
        assert lun("-t", "-n", f"seed{seed}", "-s", seed, "lightning.trainer.max_steps=3") == 0
        states.append(final_state(newest_run(tmp_path / "logs")))
    assert any("model.diffusion_model" in place for place in differences(*states))
