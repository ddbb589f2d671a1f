"""Models told by the text encoders of Stable Diffusion 2.x and XL: in, trained a step, out again."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml
from support.compvis import config_of, random_checkpoint
from support.runs import TINY, load, make_shapes, newest_run
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.files.write import write_safetensors
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.modules.encoders.sdxl import SDXLConditioner
from ldm.modules.networks.unet import UNet
from ldm.util import instantiate_from_config
from lun.weights.opening import open_model

Lun = Callable[..., int]
NARROW = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
OPEN_CLIP = {"target": "ldm.modules.encoders.openclip.FrozenOpenCLIPEmbedder", "params": {"config": NARROW}}
XL = {
    "target": "ldm.modules.encoders.sdxl.SDXLConditioner",
    "params": {"clip": {**NARROW, "num_hidden_layers": 2}, "open_clip": {**NARROW, "num_hidden_layers": 2}},
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


@pytest.mark.parametrize("cache", ["false", "true"])
def test_xl_is_told_of_every_micro_batch_where_its_pictures_were_cut(
    lun: Lun, xl_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    told: list[list[float]] = []
    forward = UNet.forward

    def watched(self: UNet, x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        assert cond.sizes is not None
        told.extend(cond.sizes.tolist())
        return forward(self, x_t, t, cond)

    monkeypatch.setattr(UNet, "forward", watched)
    data = make_shapes(tmp_path / "wide", [(15, 8), (23, 9)])
    line = ["--base", str(TINY), str(xl_model), "--logdir", str(tmp_path / "logs"), "--data_root", str(data), "-t"]
    line += ["model.params.cond_stage_config.params.from_scratch=true", f"data.params.cache={cache}"]
    line += ["model.params.cond_stage_config.params.max_length=150"]  # in chunks, too
    line += [f"data.params.validation={{target: lun.data.local.Local, params: {{data_root: {data}, size: 8}}}}"]
    line += ["lightning.trainer.max_steps=2", "lightning.trainer.accumulate_grad_batches=2", "data.params.batch_size=3"]
    assert lun(*line, base=False) == 0
    rows = {tuple(row) for row in told}
    assert len(told) > 12  # also of validation, with raw and with averaged weights
    assert rows <= {(8, 15, 0, left, 8, 8) for left in (3, 4)} | {(9, 23, 0, left, 8, 8) for left in (6, 7)}
    assert {row[:2] for row in rows} == {(8, 15), (9, 23)}


def test_a_run_of_xl_from_before_there_was_a_choice_keeps_the_encoded_empty_caption(
    lun: Lun, xl_model: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It goes on with it and says so, and so do its exports; a new run takes zeros."""
    line = ["--base", str(TINY), str(xl_model), "--logdir", str(tmp_path / "logs"), "--data_root", str(pictures), "-t"]
    line += ["model.params.cond_stage_config.params.from_scratch=true", "lightning.trainer.max_steps=1"]
    assert lun(*line, base=False) == 0
    run = newest_run(tmp_path / "logs")
    stored = run / "configs/resolved.yaml"
    assert open_model(str(run)).model.unconditional == "zeros"
    assert stored.read_text().count("unconditional: zeros\n") == 1
    stored.write_text(stored.read_text().replace("unconditional: zeros\n", "size: 8\n"))
    assert open_model(str(run)).model.unconditional == "empty caption"
    capsys.readouterr()
    for more in (["-t", "lightning.trainer.max_steps=2"], ["--check"]):  # from then on the run says it itself
        assert lun("-r", str(run), *more, base=False) == 0
    assert stored.read_text().count("unconditional: empty caption\n") == 1
    told = capsys.readouterr()
    assert (told.out + told.err).count("this run was trained with the encoded empty caption") == 1
    assert open_model(str(run)).model.unconditional == "empty caption"


def test_a_run_that_trained_what_nothing_reads_goes_on_as_if_it_never_had(
    lun: Lun,
    xl_model: Path,
    pictures: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its optimizer's state is kept by number; idle tensors lie amid the others, in a group with a rate of its own."""
    line = ["--base", str(TINY), str(xl_model), "--logdir", str(tmp_path / "logs"), "--data_root", str(pictures), "-t"]
    line += ["model.params.cond_stage_config.params.from_scratch=true", "model.params.cond_stage_trainable=true"]
    line += ["model.params.cond_stage_lr_multiple=0.5", "model.params.scheduler_config.params.total_steps=3"]
    assert lun(*line, "lightning.trainer.max_steps=3", base=False) == 0
    expected = load(newest_run(tmp_path / "logs") / "checkpoints/last.ckpt")
    with monkeypatch.context() as before:
        before.setattr(SDXLConditioner, "idle", lambda self: [])
        assert lun(*line, "lightning.trainer.max_steps=2", base=False) == 0
    run = newest_run(tmp_path / "logs")
    idle = load(run / "checkpoints/last.ckpt")["optimizer_settings"][0]["sizes"][1]
    capsys.readouterr()
    assert lun("-r", str(run), "-t", "lightning.trainer.max_steps=3", base=False) == 0
    found = load(run / "checkpoints/last.ckpt")
    assert found["optimizer_settings"][0]["sizes"][1] < idle
    assert all(torch.equal(found["state_dict"][key], weight) for key, weight in expected["state_dict"].items())
    for number, entry in expected["optimizer_states"][0]["state"].items():
        assert all(torch.equal(found["optimizer_states"][0]["state"][number][key], entry[key]) for key in entry)
    told = capsys.readouterr()
    assert (told.out + told.err).count("tensors have no optimizer state any more") == 1
    assert "cond_stage_model.embedders.0.transformer.encoder.layers.1" in told.out + told.err


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
