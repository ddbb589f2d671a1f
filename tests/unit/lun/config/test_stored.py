import os
import subprocess
from pathlib import Path

import pytest
import yaml
from support.models import tiny_config

from ldm.errors import Fault
from lun.config.stored import read_stored, stored_value


def stored(folder: Path, config: object) -> Path:
    file = folder / "resolved.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


def test_the_config_of_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    config = {"model": dict(tiny_config()), "seed": 3}
    found = read_stored(stored(tmp_path, config))
    assert found["model"] == config["model"]
    assert found["seed"] == 3


SHELL = {"target": "os.system", "params": {"command": "true"}}


@pytest.mark.parametrize(
    "recipe",
    [
        SHELL,
        {"target": "ldm.models.diffusion.ddpm.LatentDiffusion", "params": {"unet_config": SHELL}},
        {"target": "ldm.models.diffusion.ddpm.LatentDiffusion", "params": {"anything": [{"deep": SHELL}]}},
        {"target": "lun.convert.command.run", "params": {"argv": ["a", "b"]}},
        {"target": "torch.utils.collect_env.run", "params": {"command": "true"}},
    ],
)
def test_code_that_a_stored_config_names_is_refused_and_never_called(
    recipe: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "system", lambda command: pytest.fail("a shell was started"))
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **more: pytest.fail("a process was started"))
    with pytest.raises((Fault, ExceptionGroup)) as caught:
        read_stored(stored(tmp_path, {"model": recipe}))
    faults = caught.value.exceptions if isinstance(caught.value, ExceptionGroup) else [caught.value]
    assert "CFG04" in {fault.id for fault in faults}


@pytest.mark.parametrize("config", [None, [], "text", {}, {"model": None}, {"model": ["os.system"]}, {"data": {}}])
def test_what_is_no_config_of_a_model_is_a_fault(config: object, tmp_path: Path) -> None:
    with pytest.raises(Fault, match="CFG02"):
        read_stored(stored(tmp_path, config))


LOGGER = {"lightning": {"callbacks": {"image_logger": {"params": {"steps": 3}}}}}
STEPS = "lightning.callbacks.image_logger.params.steps"


@pytest.mark.parametrize("depth", range(5))
@pytest.mark.parametrize("odd", [10**400, "text", True, [1], 0.5], ids=lambda odd: type(odd).__name__)
def test_something_else_at_or_above_a_stored_value_is_told_by_its_place(depth: int, odd: object) -> None:
    assert stored_value(LOGGER, STEPS, int) == 3
    names = STEPS.split(".")[: depth + 1]
    config: object = {names[-1]: str(odd) if depth == 4 and isinstance(odd, int) else odd}
    for name in reversed(names[:-1]):
        config = {name: config}
    assert isinstance(config, dict)
    with pytest.raises(Fault, match=f"CFG03.*{names[-1]}: expected"):
        stored_value(config, STEPS, int)


@pytest.mark.parametrize("config", [{}, {"lightning": None}, {"lightning": {"callbacks": {}}}])
def test_a_stored_value_that_is_not_there_is_none(config: dict[str, object]) -> None:
    assert stored_value(config, STEPS, int) is None
