"""What would run code or touch files, in every place where a configuration names an object: refused, never called."""

import builtins
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.fuzzing import answer, places
from support.runs import TINY, make_pictures

from lun.convert.command import run as convert
from lun.sample.command import run as sample
from lun.trainer import run as train

# fmt: off
TARGETS = (
    "os.system", "os.remove", "posix.system", "subprocess.call", "subprocess.Popen", "builtins.eval",
    "builtins.exec", "builtins.open", "builtins.__import__", "importlib.import_module", "pickle.loads",
    "runpy.run_path", "shutil.rmtree", "torch.load", "torch.utils.collect_env.run", "torch.hub.load",
    "torch.utils.cpp_extension.load", "lun.convert.command.run", "lun.convert.__main__", "main.run",
    "ldm.util.get_obj_from_str", "ldm.util.instantiate_from_config", "ldm.admission.configurable",
    "ldm.admission.grant", "lun.weights.trust.read_trusted", "lun.weights.opening.open_model",
    "ldm.files.replacing.replace_text", "lun.checkpoints.checkpoint_files.remove_checkpoint",
    "lun.config.targets.find_target", "ldm.files.read.os.system", "lun.console.ending.sys.exit",
    "torch.nn.Linear.__init__.__globals__",
)
# fmt: on
RECIPE = {"params": {"command": "touch ran", "path": "ran", "text": "x"}}


def slots(config: Any) -> Iterator[tuple[Any, ...]]:
    """Every recipe of a configuration, and every place in the params of one that may hold another."""
    for path in places(config):
        value = config
        for key in path:
            value = value[key]
        if isinstance(value, dict) and ("target" in value or (path and path[-1] in ("params", "callbacks", "logger"))):
            yield path if "target" in value else (*path, "anything")


CONFIG = yaml.safe_load(TINY.read_text())
SLOTS = sorted({path for path in slots(CONFIG) if path}, key=str)
SLOTS += [("model", "params", "ema_config"), ("lightning", "logger"), ("lightning", "callbacks", "progress")]
SLOTS += [
    ("data", "params", "train", "params", "custom_filter"),
    ("lightning", "strategy"),
    ("lightning", "trainer", "plugins"),
]


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """What was started, or written outside of the test's folder."""
    ran: list[str] = []

    def told(name: str) -> Any:
        return lambda *given, **more: ran.append(f"{name} {given}")

    real = builtins.open

    def opened(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
        inside = isinstance(file, int) or os.path.realpath(file).startswith(
            (str(tmp_path), "/dev/", os.environ["LUN_CACHE"])
        )
        if set(mode) & set("wax+") and not inside:
            ran.append(f"open {file}")
        return real(file, mode, *more, **named)

    with monkeypatch.context() as patch:
        for module, name in ((os, "system"), (os, "remove"), (subprocess, "Popen"), (shutil, "rmtree")):
            patch.setattr(module, name, told(name))
        patch.setattr(builtins, "open", opened)
        patch.chdir(tmp_path)
        yield ran


def anything(path: tuple[Any, ...], target: str) -> dict[str, Any]:
    """The tiny config with a recipe of `target` at a place, which is made where it is not there."""
    config = yaml.safe_load(TINY.read_text())
    place = config
    for key in path[:-1]:
        place = place.setdefault(key, {}) if isinstance(place.get(key, {}), dict) else place
    place[path[-1]] = {"target": target, **RECIPE}
    return config


def run_with(config: dict[str, Any], folder: Path) -> Path:
    run = folder / "run"
    (run / "configs").mkdir(parents=True, exist_ok=True)
    (run / "checkpoints").mkdir(exist_ok=True)
    (run / "configs" / "resolved.yaml").write_text(yaml.safe_dump(config))
    return run


@pytest.mark.parametrize("share", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_no_place_of_a_config_takes_what_would_run_code(share: int, nothing_runs: list[str], tmp_path: Path) -> None:
    """Each target in each place; by default every 23rd of these pairs, so that all targets and all places occur."""
    data = make_pictures(tmp_path / "data", 1)
    pairs = [(path, target) for path in SLOTS for target in TARGETS][::share]
    for path, target in pairs:
        (tmp_path / "hostile.yaml").write_text(yaml.safe_dump(anything(path, target)))
        code, said = answer(train, ["--base", "hostile.yaml", "--data_root", str(data), "--check"])
        assert code == 2, (path, target, said)
        assert "Traceback" not in said, said
        assert nothing_runs == [], (path, target)
    print(f"{len(pairs)} pairs of {len(SLOTS)} places and {len(TARGETS)} targets")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("target", [*TARGETS[::8], *(pytest.param(one, marks=pytest.mark.slow) for one in TARGETS)])
def test_no_run_that_was_shared_runs_code(target: str, nothing_runs: list[str], tmp_path: Path) -> None:
    """By any command that reads it, with the target in the place of the model and of its parts."""
    import torch

    for path in (("model",), ("model", "params", "unet_config"), ("lightning", "callbacks", "mine")):
        run = run_with(anything(path, target), tmp_path)
        state = {"model.diffusion_model.x": torch.ones(1)}
        torch.save({"state_dict": state, "global_step": 1, "epoch": 0}, run / "checkpoints" / "last.ckpt")
        lines = [(train, ["-r", str(run), "--check"]), (convert, [str(run), "out.safetensors", "--to", "ldm"])]
        for command, words in [*lines, (sample, [str(run), "a cat", "-o", "drawn"])]:
            code, said = answer(command, words)
            assert code in (2, 4), (target, code, said)
            assert "Traceback" not in said, said
            assert nothing_runs == [], target
    assert not (tmp_path / "ran").exists()
