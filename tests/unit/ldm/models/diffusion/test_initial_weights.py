"""Where the weights of a model come from."""

from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from support.models import tiny_config, tiny_model

from ldm.errors import Fault
from ldm.families.whole_checkpoint import WholeCheckpoint
from ldm.files.digest import sha256
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.models.diffusion.part import Part
from ldm.models.run_context import RunContext


def without_from_scratch(*parts: str) -> dict[str, Any]:
    """Configs of the parts that no longer say `from_scratch`."""
    params = tiny_config()["params"]
    for part in parts:
        del params[part]["params"]["from_scratch"]
    return {part: params[part] for part in parts}


@pytest.fixture
def whole(model: LatentDiffusion, tmp_path: Path) -> Path:
    path = tmp_path / "whole.safetensors"
    save_file({name: value.contiguous() for name, value in model.to_disk(dict(model.state_dict())).items()}, path)
    return path


def test_a_part_without_weights_is_refused_before_anything_is_built() -> None:
    model = tiny_model(**without_from_scratch("unet_config", "first_stage_config"))
    with pytest.raises(Fault) as alone:
        model.require_weights(files=False)
    with pytest.raises(Fault) as raised:
        model.require_weights()
    fault = raised.value
    assert alone.value.render() == fault.render()
    assert fault.id == "MOD06"
    assert fault.what == "the UNet and the first stage got no weights; training would start from noise"
    assert "model.params.unet_config.params.from_scratch=true" in fault.fix
    with pytest.raises(Fault, match="MOD06"):
        model.configure_model()


def test_a_checkpoint_fills_every_part(model: LatentDiffusion, whole: Path) -> None:
    parts = without_from_scratch("unet_config", "first_stage_config", "cond_stage_config")
    other = tiny_model(**parts, ckpt_path=str(whole))
    other.seed = 1
    other.require_weights()
    other.configure_model()
    expected, found = model.state_dict(), other.state_dict()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_checkpoint_is_hashed_once_while_its_weights_are_loaded(
    whole: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    read, hashed, began = WholeCheckpoint.read, WholeCheckpoint.sha256, Event()
    digests: list[str] = []

    def reading(checkpoint: WholeCheckpoint) -> Any:
        began.set()
        return read(checkpoint)

    def hashing(checkpoint: WholeCheckpoint) -> str:
        assert began.wait(timeout=60), "nothing was read before the hash was there"
        digests.append(hashed(checkpoint))
        return digests[-1]

    monkeypatch.setattr(WholeCheckpoint, "read", reading)
    monkeypatch.setattr(WholeCheckpoint, "sha256", hashing)
    with caplog.at_level("INFO"):
        tiny_model(ckpt_path=str(whole)).configure_model()
    assert digests == [sha256(whole)]
    assert digests[0][:8] in caplog.text


def test_a_checkpoint_without_a_part_leaves_it_nameless(model: LatentDiffusion, tmp_path: Path) -> None:
    unet = {k: v.contiguous() for k, v in model.to_disk(dict(model.state_dict())).items() if k.startswith("model.")}
    save_file(unet, tmp_path / "unet.safetensors")
    other = tiny_model(**without_from_scratch("first_stage_config"), ckpt_path=str(tmp_path / "unet.safetensors"))
    with pytest.raises(Fault, match="the first stage got no weights"):
        other.configure_model()


def test_a_file_that_is_not_there_is_told_before_anything_is_built(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="MOD01"):
        tiny_model(ckpt_path=str(tmp_path / "nowhere.ckpt")).require_weights()


def test_a_resumed_model_reads_no_weights() -> None:
    model = tiny_model(**without_from_scratch("unet_config"))
    model.expect_checkpoint()
    model.configure_model()
    assert model.model is not None


def test_networks_are_built_once_to_be_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))
    model, built, build = tiny_model(), [], Part.build_on_meta
    monkeypatch.setattr(Part, "build_on_meta", lambda part: built.append(part.setting) or build(part))
    assert model.training_plan() is model.training_plan()
    assert len(built) == len(set(built)) == 3
    tiny_model().training_plan()
    assert len(built) == 3  # their shapes are kept


def test_what_a_run_settles_is_in_the_plan_that_follows() -> None:
    model = tiny_model()
    before = model.training_plan()
    model.begin(RunContext(max_steps=3))
    assert model.training_plan() is not before


def test_parameters_are_counted_without_memory(model: LatentDiffusion) -> None:
    plan = model.training_plan()
    built = {"UNet": model.model, "first stage": model.first_stage_model, "text encoder": model.cond_stage_model}
    sizes = {name: sum(p.numel() for p in part.parameters()) for name, part in built.items()}  # type: ignore[union-attr]
    assert {part.name: part.parameters for part in plan.parts} == sizes
    trained = [sizes["UNet"], 0, sizes["text encoder"]]
    assert [part.trained for part in plan.parts] == trained
    assert [group.size for group in plan.groups] == [trained[0], trained[2]]
