"""Schedule-free optimizers through the whole program: the average is what is looked at, the rest is what trains."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support.equality import differences, final_state
from support.runs import load, newest_run

from lun.convert.command import run as convert

Lun = Callable[..., int]
FREE = [
    "model.params.optimizer_config={target: schedulefree.AdamWScheduleFree, params: {warmup_steps: 2}}",
    "model.params.scheduler_config=null",
    "model.params.use_ema=false",
    "model.params.unet_config.params.dropout=0.0",
]
VALIDATION = [
    "data.params.validation={target: lun.data.local.Local, params: {data_root: '???', size: 8, flip_p: 0.0}}",
    "lightning.trainer.val_check_interval=2",
]
PICTURES = "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger, params: {batch_frequency: 3, "
PICTURES += "max_images: 1, log_images_kwargs: {ddim_steps: 1}}}"


def steps(count: int) -> str:
    return f"lightning.trainer.max_steps={count}"


def test_looking_at_the_average_and_going_on_from_a_file_leave_no_trace(lun: Lun, tmp_path: Path) -> None:
    """Validated, sampled, saved and resumed, or none of it: the same weights to the bit."""
    assert lun("-t", "-n", "straight", *FREE, steps(6)) == 0
    straight = final_state(newest_run(tmp_path / "logs"))
    assert lun("-t", "-n", "busy", *FREE, *VALIDATION, PICTURES, steps(4)) == 0
    run = newest_run(tmp_path / "logs")
    assert lun("-r", str(run), "-t", steps(6), base=False) == 0
    assert differences(straight["state_dict"], (busy := final_state(run))["state_dict"]) == []
    assert differences(straight["optimizer_states"], busy["optimizer_states"]) == []

    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (last,) = [row for row in rows if row["step"] == 6 and "val/loss_simple" in row]
    assert last["val/loss_simple"] != last["val/loss_simple_ema"]


def test_what_leaves_the_run_is_the_average_and_not_what_trains(lun: Lun, tmp_path: Path) -> None:
    assert lun("-t", *FREE, steps(4)) == 0
    run = newest_run(tmp_path / "logs")
    assert convert([str(run), str(tmp_path / "out.safetensors"), "--to", "ldm"]) == 0
    kept, out = load(run / "checkpoints/last.ckpt")["state_dict"], load_file(tmp_path / "out.safetensors")
    name = "model.diffusion_model.input_blocks.0.0.weight"
    average = kept["model_ema." + name.removeprefix("model.").replace(".", "")]
    assert torch.equal(out[name].float(), average.float()) and not torch.equal(kept[name].float(), average.float())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["model.params.scheduler_config={target: ldm.lr_scheduler.WarmupCosine}"], "the place of a schedule"),
        (["model.params.use_ema=true"], "an EMA cannot stand beside it"),
        (["model.params.optimizer_config.target=schedulefree.AdamWScheduleFreeClosure"], "without Closure"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    lun: Lun, capsys: pytest.CaptureFixture[str], words: list[str], says: str
) -> None:
    assert lun("-t", *FREE, *words) == 2
    assert "CFG08" in (told := capsys.readouterr().err) and says in told
