"""A family of models that nobody here has heard of: trained, drawn from, exported, recognised."""

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file
from support.runs import load, newest_run

from ldm.families import registry
from lun.convert.command import run as convert
from lun.sample.command import run as sample
from lun.trainer import run

NETWORK = {
    "target": "lun.local.toy_family.ToyNetwork",
    "params": {"width": 8, "channels": 4, "context": 8, "from_scratch": True},
}
FLOW = {
    "target": "ldm.diffusion.objective.Objective",
    "params": {"path": {"target": "ldm.diffusion.rectified_flow.RectifiedFlow"}, "prediction": "flow"},
}
ENTRY_POINTS = "[lun.families]\ntoy = lun.local.toy_family:TOY\nother = lun.local.that_must_not_be_imported:OTHER\n"


def install(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `pip install` leaves of a package that names a family, in a process that has imported nothing of it."""
    folder = package / "toy-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n", "utf-8")
    (folder / "entry_points.txt").write_text(ENTRY_POINTS, "utf-8")
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.syspath_prepend(str(package))


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other test meets the family."""
    monkeypatch.setattr(registry, "_registered", {})


def test_a_family_of_ones_own_trains_samples_exports_and_is_recognised(
    drawer: Callable[[str], None],
    tiny: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    drawer("toy_family")
    own = ["~model.params.linear_start", "~model.params.linear_end"]  # of DDPM's path
    assert run(["--base", tiny(unet_config=NETWORK, objective=FLOW), *own, "--max_steps", "2", "-t"]) == 0
    trained = newest_run(tmp_path / "logs")
    state = load(trained / "checkpoints" / "last.ckpt")["state_dict"]
    assert "model.diffusion_model.toy.in.weight" in state

    # Drawn from as a run.
    assert sample([str(trained), "a cat", "--steps", "2", "-o", "drawn"]) == 0
    assert (tmp_path / "drawn" / "sheet.png").is_file()

    # Exported by its record.
    assert convert([str(trained), "toy.safetensors", "--to", "ldm", "--no-ema"]) == 0
    assert "Toy Diffusion, predicts flow_prediction" in capsys.readouterr().out
    exported = load_file(tmp_path / "toy.safetensors")
    assert exported.keys() == {key for key in state if not key.startswith("model_ema.")}
    with safe_open(tmp_path / "toy.safetensors", "pt") as file:
        assert file.metadata()["modelspec.architecture"] == "toy-diffusion-v1"
    assert convert([str(trained), "folder", "--to", "diffusers"]) != 0
    assert "for which diffusers has no pipeline" in capsys.readouterr().err

    # Recognised elsewhere by the name that its package gives it, built from the file alone; refused without.
    (tmp_path / "elsewhere").mkdir()
    lone = str((tmp_path / "toy.safetensors").rename(tmp_path / "elsewhere" / "toy.safetensors"))
    monkeypatch.setattr(registry, "_registered", {})
    assert convert([lone, "again.safetensors", "--to", "ldm"]) != 0
    assert "no Stable Diffusion that is known here" in capsys.readouterr().err
    install(tmp_path / "site-packages", monkeypatch)
    assert convert([lone, "again.safetensors", "--to", "ldm"]) != 0
    assert "known where they are named: --family other, --family toy" in capsys.readouterr().err
    words = [lone, "a cat", "--steps", "2", "--guidance", "1", "--raw", "-o", "again"]
    assert sample([*words, "--family", "toi"]) == 2
    assert "installed are other, toy" in capsys.readouterr().err
    assert sample([*words, "--family", "toy"]) == 0
    assert (tmp_path / "again" / "sheet.png").is_file()
