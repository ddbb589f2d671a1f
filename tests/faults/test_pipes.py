"""A pipe in the place of a file that a command reads: nobody writes into it, and nothing waits for that."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fuzzing import require_answer
from support.runs import TINY, make_pictures

from lun.convert.command import run as convert
from lun.inspect.command import run as inspect
from lun.memory.command import run as memory
from lun.posthoc_ema.command import run as posthoc_ema
from lun.sample.command import run as sample
from lun.trainer import run as train

Command = Callable[[list[str]], int]

TRAIN = ["--base", str(TINY), "--data_root", "data", "-t", "lightning.trainer.max_steps=1"]
IMAGES = "{target: lun.callbacks.ImageLogger, params: {prompts: %s}}"
LINES: dict[str, tuple[Command, list[str]]] = {
    "--base": (train, ["--base", "PIPE", "-t"]),
    "--data_root": (train, [*TRAIN, "--data_root", "PIPE"]),
    "--resume": (train, ["-r", "PIPE", "-t"]),
    "--init-from": (train, [*TRAIN, "--init-from", "PIPE"]),
    "weights of a first stage": (train, [*TRAIN, "model.params.first_stage_config.params.ckpt_path=PIPE"]),
    "prompts": (train, [*TRAIN, "lightning.callbacks.image_logger=" + IMAGES % "PIPE"]),
    "lun.convert": (convert, ["PIPE", "out.safetensors", "--to", "ldm"]),
    "lun.convert --trust-pickle": (convert, ["PIPE", "out.safetensors", "--to", "ldm", "--trust-pickle"]),
    "lun.convert --vae": (convert, ["PIPE", "out", "--to", "diffusers", "--vae", "PIPE"]),
    "lun.sample": (sample, ["PIPE", "--prompts", "a"]),
    "lun.sample --prompts": (sample, ["data", "--prompts", "PIPE"]),
    "lun.posthoc_ema inspect": (posthoc_ema, ["inspect", "PIPE"]),
    "lun.posthoc_ema export": (posthoc_ema, ["export", "PIPE", "-o", "out.safetensors"]),
    "lun.inspect": (inspect, ["PIPE"]),
    "lun.inspect --base": (inspect, ["--base", "PIPE"]),
    "lun.memory --base": (memory, ["--base", "PIPE"]),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("ending", [".safetensors", ".txt"])
@pytest.mark.parametrize("name", LINES)
def test_no_command_waits_for_a_pipe(name: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_pictures(tmp_path / "data", 2)
    os.mkfifo(f"pipe{ending}")
    command, words = LINES[name]
    require_answer(command, [word.replace("PIPE", f"pipe{ending}") for word in words])
