"""Models told by the text encoders of Stable Diffusion 2.x and XL: in, trained a step, out again."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from support.compvis import config_of, random_checkpoint
from support.runs import TINY, load, newest_run

from ldm.checkpoint.write import write_safetensors
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.util import instantiate_from_config

Lun = Callable[..., int]
NARROW = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
OPEN_CLIP = {"target": "ldm.modules.encoders.openclip.FrozenOpenCLIPEmbedder", "params": {"config": NARROW}}
XL = {
    "target": "ldm.modules.encoders.sdxl.SDXLConditioner",
    "params": {"clip": {**NARROW, "num_hidden_layers": 2}, "open_clip": {**NARROW, "num_hidden_layers": 2}, "size": 8},
}
SIZES = {
    "cross_attention_dim": 16,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 8,
    "projection_class_embeddings_input_dim": 56,
}


@pytest.fixture
def v_model(tmp_path: Path) -> Path:
    """Stable Diffusion 2.1's shape at the smallest size: OpenCLIP, v."""
    layer = {"model": {"params": {"parameterization": "v", "cond_stage_config": OPEN_CLIP}}}
    (tmp_path / "v.yaml").write_text(yaml.safe_dump(layer))
    return tmp_path / "v.yaml"


@pytest.fixture
def xl_model(tmp_path: Path) -> Path:
    params = {"scale_factor": 0.13025, "cond_stage_trainable": False, "cond_stage_config": XL}
    layer = {"model": {"params": {**params, "unet_config": {"params": SIZES}}}}
    (tmp_path / "xl.yaml").write_text(yaml.safe_dump(layer))
    return tmp_path / "xl.yaml"


def test_a_trained_open_clip_goes_on_after_a_resume(lun: Lun, v_model: Path, pictures: Path, tmp_path: Path) -> None:
    write_safetensors(tmp_path / "sd.safetensors", random_checkpoint(config_of([TINY, v_model], pictures)))
    line = ["--base", str(TINY), str(v_model), "--logdir", str(tmp_path / "logs"), "--data_root", str(pictures), "-t"]
    line += ["--init-from", str(tmp_path / "sd.safetensors"), "lightning.trainer.max_steps=2"]
    line += ["model.params.scheduler_config.params.total_steps=9"]
    assert lun(*line, base=False) == 0
    run = newest_run(tmp_path / "logs")
    before = load(run / "checkpoints/last.ckpt")["state_dict"]
    assert "model_ema.cond_stage_modeltransformerfinal_layer_normweight" in before
    assert "cond_stage_model.model.transformer.resblocks.1.ln_1.weight" in before  # of the layer that nothing reads
    assert lun("-r", str(run), "-t", "lightning.trainer.max_steps=3", base=False) == 0
    after = load(run / "checkpoints/last.ckpt")["state_dict"]
    assert before.keys() == after.keys()
    key = "cond_stage_model.model.transformer.resblocks.0.attn.in_proj_weight"
    assert 0 < (after[key] - before[key]).abs().max() < 0.01


def test_xl_comes_in_and_goes_out_under_its_own_names(lun: Lun, xl_model: Path, pictures: Path, tmp_path: Path) -> None:
    state = random_checkpoint(config_of([TINY, xl_model], pictures))
    assert any(key.startswith("conditioner.embedders.1.model.") for key in state)
    write_safetensors(tmp_path / "xl.safetensors", state)
    line = ["--base", str(TINY), str(xl_model), "--logdir", str(tmp_path / "logs"), "--data_root", str(pictures), "-t"]
    line += ["--init-from", str(tmp_path / "xl.safetensors"), "lightning.trainer.max_steps=1"]
    assert lun(*line, base=False) == 0
    found = load(newest_run(tmp_path / "logs") / "checkpoints/last.ckpt")["state_dict"]
    frozen = [
        key for key in state if key.startswith(("conditioner.", "first_stage_model.")) and "position_ids" not in key
    ]
    assert all(torch.equal(found[key], state[key]) for key in frozen)
    assert not any(key.startswith("cond_stage_model.") for key in found)


def test_xl_samples(xl_model: Path, pictures: Path) -> None:
    config = config_of([TINY, xl_model], pictures, "model.params.cond_stage_config.params.from_scratch=true")
    model: LatentDiffusion = instantiate_from_config(config["model"])
    model.configure_model()
    both = model.sample_prompts(["a fox", "a cat"], seeds=[0, 1], steps=2, guidance=5.0)
    assert both.shape == (2, 3, 8, 8)
    assert both.isfinite().all()
    alone = model.sample_prompts(["a cat"], seeds=[1], steps=2, guidance=5.0)
    assert torch.allclose(both[1:], alone, atol=1e-4)


def test_a_web_page_in_place_of_weights_ends_the_start(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sd.ckpt").write_text("<!DOCTYPE html><html>sign in</html>")
    assert lun("-t", "--init-from", str(tmp_path / "sd.ckpt")) == 4
    assert "error[MOD02]" in (said := capsys.readouterr().err)
    assert "it is a web page" in said
