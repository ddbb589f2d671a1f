"""k steps, resume, N - k steps is N steps straight, bit for bit."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.equality import differences, final_state
from support.runs import load, newest_run
from support.together import distance

Lun = Callable[..., int]
STEPS = 12
LEARNED = (
    "model.params.objective={target: ldm.diffusion.objective.Objective, params: "
    "{weighting: {target: ldm.diffusion.weighting.Uncertainty}}}"
)
FUSED = "lightning.callbacks.fused_backward.target=lun.callbacks.FusedBackward"
MASTER = "lightning.trainer.precision=bf16-master"


@pytest.mark.parametrize(
    ("cuts", "settings"),
    [
        ([5], ["model.params.cond_stage_lr_multiple=0.5"]),
        ([3, 7, 8], ["lightning.trainer.accumulate_grad_batches=3", LEARNED]),
        ([6, 11], ["data.params.num_workers=2"]),
        ([4], ["lightning.trainer.precision=bf16-mixed", "data.params.batch_size=4"]),
        ([5], ["lightning.trainer.precision=bf16-true"]),
        ([5], [MASTER, "lightning.trainer.accumulate_grad_batches=2", "lightning.trainer.gradient_clip_val=0.5"]),
        ([5], ["lightning.trainer.precision=bf16-true", "lightning.trainer.gradient_clip_val=0.5", FUSED]),
    ],
    ids=[
        "mid-epoch, text encoder at half the rate",
        "accumulation and learned weights, three times",
        "workers",
        "bf16",
        "weights in bf16",
        "weights in bf16 with an fp32 master",
        "steps within the backward pass",
    ],
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


def test_other_micro_batches_of_the_same_step_see_the_same_examples_and_it_is_said(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "-t",
        "model.params.unet_config.params.dropout=0.0",
        "model.params.optimizer_config.target=torch.optim.SGD",
        "model.params.scheduler_config.params.total_steps=4",
    ]
    assert lun(*words, "-n", "straight", "lightning.trainer.max_steps=4") == 0
    straight = load(newest_run(tmp_path / "logs") / "checkpoints/last.ckpt")
    assert lun(*words, "-n", "split", "lightning.trainer.max_steps=2") == 0
    run = newest_run(tmp_path / "logs")
    start = load(run / "checkpoints/last.ckpt")
    other = ["data.params.batch_size=1", "lightning.trainer.accumulate_grad_batches=2", "lightning.trainer.max_steps=4"]
    capsys.readouterr()
    assert lun("-r", str(run), "-t", *other, base=False) == 0
    said = capsys.readouterr().out
    assert "data.params.batch_size: 2 -> 1" in said and "accumulate_grad_batches" in said
    end = load(run / "checkpoints/last.ckpt")
    assert end["lun"]["position"] == straight["lun"]["position"]
    assert distance(end["state_dict"], straight["state_dict"], start["state_dict"]) < 1e-3


def test_steps_and_rates_in_the_log_are_the_runs_own_whatever_schedule_it_goes_on_with(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accumulate, root = "lightning.trainer.accumulate_grad_batches=2", "model.params.scheduler_config"
    assert lun("-t", accumulate, "lightning.trainer.max_steps=3") == 0
    run = newest_run(tmp_path / "logs")
    line = '{"target": "ldm.lr_scheduler.WarmupLinear", "params": {"total_steps": 10}}'
    assert lun("-r", str(run), "-t", f"{root}=null", "lightning.trainer.max_steps=5", base=False) == 0
    capsys.readouterr()
    assert lun("-r", str(run), "-t", f"{root}={line}", "lightning.trainer.max_steps=12", base=False) == 0
    assert "warning[TRN04]: the learning rate is 0 from step 10 of 12 on" in capsys.readouterr().out
    rows = [json.loads(row) for row in (run / "metrics.jsonl").read_text().splitlines()]
    logged = [(row["step"], row["lr_abs"]) for row in rows if "lr_abs" in row]
    assert [step for step, _ in logged] == list(range(1, 13))
    assert [rate for _, rate in logged[3:]] == pytest.approx(
        [1e-3] * 2 + [1e-3 * (1 - n / 10) for n in (5, 6, 7, 8, 9)] + [0, 0]
    )
