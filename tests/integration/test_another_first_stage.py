"""A network taken over to the latents of another autoencoder: more channels, padding by reflection."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.models import tiny_model
from support.runs import TINY, load, newest_run
from torch import Tensor

from ldm.files.write import write_safetensors
from lun.sample.command import run as sample

FIRST_STAGE = "model.params.first_stage_config.params"
SHAPE = [
    "model.params.channels=16",
    "model.params.unet_config.params={in_channels: 16, out_channels: 16}",
    f"{FIRST_STAGE}.embed_dim=16",
    f"{FIRST_STAGE}.ddconfig={{z_channels: 16, quant_conv: false, padding_mode: reflect}}",
    "model.params.scale_factor=1.5305",
    "model.params.shift_factor=0.0609",
    "model.params.cond_stage_trainable=false",
]
OUTER = ("model.diffusion_model.input_blocks.0.0.", "model.diffusion_model.out.2.")


def unet(state: dict[str, Tensor], outer: bool) -> dict[str, Tensor]:
    names = [name for name in state if name.startswith("model.diffusion_model.")]
    return {name: state[name] for name in names if name.startswith(OUTER) is outer}


def test_its_outer_convolutions_learn_alone_from_scratch_and_then_all_goes_on_from_there(
    lun: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(1)
    model = tiny_model()
    model.configure_model()
    given = {k: v for k, v in model.to_disk(dict(model.state_dict())).items() if not k.startswith("first_stage")}
    write_safetensors(tmp_path / "four.safetensors", given)
    begin = ["--base", str(TINY), "outer-convolutions", *SHAPE, "--init-from", str(tmp_path / "four.safetensors")]
    assert lun(*begin, "-t", "-n", "outer", "lightning.trainer.max_steps=1") == 0
    assert "2328 in 4 tensors" in capsys.readouterr().out
    run = newest_run(tmp_path / "logs")
    assert lun("-r", str(run), "-t", "lightning.trainer.max_steps=2", base=False) == 0
    first = load(run / "checkpoints/last.ckpt")["state_dict"]
    assert all(torch.equal(value, given[name]) for name, value in unet(first, outer=False).items())
    assert unet(first, outer=True)[OUTER[0] + "weight"].shape == (8, 16, 3, 3)

    assert lun("--base", str(TINY), *SHAPE, "--init-from", str(run), "-t", "lightning.trainer.max_steps=1") == 0
    then = load(newest_run(tmp_path / "logs") / "checkpoints/last.ckpt")["state_dict"]
    moved = {name: (then[name] - first[name]).abs().max() for name in unet(then, True) | unet(then, False)}
    assert min(moved.values()) > 0 and max(moved.values()) < 0.01
    assert sample([str(newest_run(tmp_path / "logs")), "red", "--steps", "1", "-o", str(tmp_path / "drawn")]) == 0
