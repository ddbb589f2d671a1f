"""A pipe in the place of a file that a command reads: nobody writes into it, and nothing waits for that."""

import inspect as python
import os
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from support.fuzzing import in_a_fork, require_answer
from support.runs import TINY, make_pictures

import ldm.convert
import ldm.files
import lun.checkpoints
import lun.config.reading
import lun.data
import lun.previews
from ldm.errors import Fault
from lun.convert.command import run as convert
from lun.inspect.command import run as inspect
from lun.memory.command import run as memory
from lun.posthoc_ema.command import run as posthoc_ema
from lun.publish.command import run as publish
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
    "lun.publish": (publish, ["PIPE", "org/name", "--dry-run"]),
    "lun.sample": (sample, ["PIPE", "--prompts", "a"]),
    "lun.sample --prompts": (sample, ["data", "--prompts", "PIPE"]),
    "lun.posthoc_ema inspect": (posthoc_ema, ["inspect", "PIPE"]),
    "lun.posthoc_ema export": (posthoc_ema, ["export", "PIPE", "-o", "out.safetensors"]),
    "lun.inspect": (inspect, ["PIPE"]),
    "lun.inspect --base": (inspect, ["--base", "PIPE"]),
    "lun.memory --base": (memory, ["--base", "PIPE"]),
}


@pytest.mark.timeout(200)
@pytest.mark.parametrize("ending", [".safetensors", ".txt"])
@pytest.mark.parametrize("name", LINES)
def test_no_command_waits_for_a_pipe(name: str, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_pictures(tmp_path / "data", 2)
    os.mkfifo(f"pipe{ending}")
    command, words = LINES[name]
    require_answer(command, [word.replace("PIPE", f"pipe{ending}") for word in words])


def readers() -> Iterator[Callable[[Path], Any]]:
    """Every public function and class of these packages that a path is enough for."""
    packages = (ldm.convert, ldm.files, lun.checkpoints, lun.config.reading, lun.data, lun.previews)
    for package in packages:
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not found.name.endswith("__main__"):
                module = import_module(found.name)
                own = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
                yield from filter(takes_a_path, own)


def takes_a_path(value: Any) -> bool:
    if not (python.isfunction(value) or python.isclass(value)) or value.__name__.startswith("_"):
        return False
    try:
        hints = get_type_hints(value if python.isfunction(value) else value.__init__)
        parameters = python.signature(value).parameters.values()
    except (ValueError, NameError):
        return False
    needed = [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    return len(needed) == 1 and "Path" in str(hints.get(needed[0], ""))


def test_no_function_that_is_given_a_path_waits_for_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("support.fuzzing.WAITING", 60)
    pipe, found = tmp_path / "pipe.ckpt", list(readers())

    def ask_each(begin: Callable[[object], None]) -> None:
        for reader in found:
            pipe.unlink(missing_ok=True)
            os.mkfifo(pipe)
            begin(reader)
            with suppress(Fault, OSError, ValueError):
                reader(pipe)

    assert in_a_fork(ask_each) > 40
