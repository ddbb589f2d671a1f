"""From a run to files that other programs open: while it goes on, and afterwards."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from diffusers import AutoencoderKL, StableDiffusionPipeline, UNet2DConditionModel
from safetensors import safe_open
from safetensors.torch import load_file
from support.runs import load, newest_run
from support.small import contents, same

from ldm.keys.averaged import averaged_name, choose_weights
from ldm.keys.split_checkpoint import FIRST_STAGE, UNET
from lun.callbacks import export as exporting
from lun.convert.command import run as convert
from lun.publish.command import run as publish

OVERLAY = str(Path(__file__).parents[2] / "configs" / "options" / "export.yaml")
EVERY_2 = "lightning.callbacks.export.params.every_n_train_steps=2"
FULL = "lightning.callbacks.export.params.dtype=fp32"
SAMPLES = (
    "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger, params: "
    "{batch_frequency: 2, prompts: [a cat], log_images_kwargs: {ddim_steps: 2}}}"
)
Lun = Callable[..., int]


def metadata(file: Path) -> dict[str, str]:
    with safe_open(file, "pt") as opened:
        return dict(opened.metadata())


def test_a_run_writes_files_that_are_those_of_the_command(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lun("--base", OVERLAY, EVERY_2, FULL, SAMPLES, "--max_steps", "3", "-t") == 0
    run = newest_run(tmp_path / "logs")
    names = [f"{run.name}-00000{step}.{kind}" for step in (2, 3) for kind in ("md", "png", "safetensors")]
    assert contents(run / "exports") == names
    assert "its text encoder (4 tensors" in capsys.readouterr().out

    # The averaged weights of the checkpoint of the same step, and nothing of the training state.
    exported = load_file(run / "exports" / f"{run.name}-000003.safetensors")
    state = load(run / "checkpoints" / "last.ckpt")["state_dict"]
    assert same(exported, choose_weights(state, True, "x").state)
    key = UNET + "out.2.weight"
    assert torch.equal(exported[key], state[averaged_name(key)])

    # The command writes the same from the run; its own time and title aside.
    assert convert([str(run), str(tmp_path / "x.safetensors"), "--to", "ldm"]) == 0
    assert same(load_file(tmp_path / "x.safetensors"), exported)
    ours, its = metadata(tmp_path / "x.safetensors"), metadata(run / "exports" / f"{run.name}-000003.safetensors")
    own = {"modelspec.date", "modelspec.title", "modelspec.thumbnail"}
    assert {k: v for k, v in ours.items() if k not in own} == {k: v for k, v in its.items() if k not in own}
    assert (ours["ss_steps"], ours["lun.run"], ours["modelspec.resolution"]) == ("3", run.name, "8x8")
    assert ours["modelspec.thumbnail"].startswith("data:image/jpeg;base64,")

    # A card beside each, which names the samples of those weights.
    card, its = (tmp_path / "x.md").read_text(), (run / "exports" / f"{run.name}-000003.md").read_text()
    assert card.split("\n<!--")[0] == its.replace(f"{run.name}-000003.png", "x.png").split("\n<!--")[0]
    assert "- a cat (seed 42, step 3)" in card and "![samples](x.png)" in card and "11 examples" in card
    assert publish([str(run), "org/name", "--dry-run"]) == 0
    assert f"file     {run.name}-000003.safetensors" in capsys.readouterr().out
    sheet = (run / "images/samples/samples_ema_r-0_gs-000003_e-000000.png").read_bytes()
    assert (tmp_path / "x.png").read_bytes() == sheet


def test_the_demos_kind_of_run_goes_to_diffusers_and_back(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its word embedder is no text encoder of Stable Diffusion: that is said, and nothing of it is lost."""
    assert lun("--max_steps", "2", "-t") == 0
    run = newest_run(tmp_path / "logs")
    assert convert([str(run), str(tmp_path / "folder"), "--to", "diffusers"]) == 0
    assert "one that other programs do not know" in capsys.readouterr().out
    unet = UNet2DConditionModel.from_pretrained(tmp_path / "folder" / "unet", local_files_only=True)
    vae = AutoencoderKL.from_pretrained(tmp_path / "folder" / "vae", local_files_only=True)
    # What shapes do not tell came from the run's config.
    assert (unet.config.attention_head_dim, unet.config.norm_num_groups) == (2, 4)
    assert tuple(vae.config.block_out_channels) == (32, 32)
    scheduler = json.loads((tmp_path / "folder" / "scheduler" / "scheduler_config.json").read_text())
    assert (scheduler["beta_start"], scheduler["prediction_type"]) == (0.00085, "epsilon")

    pipeline = StableDiffusionPipeline.from_pretrained(
        tmp_path / "folder", text_encoder=None, tokenizer=None, local_files_only=True
    )
    told = {"prompt_embeds": torch.ones(1, 4, 8), "negative_prompt_embeds": torch.zeros(1, 4, 8)}
    latents = pipeline(**told, num_inference_steps=2, height=8, width=8, output_type="latent").images
    assert latents.shape == (1, 4, 4, 4)

    for name, source in (("a", run), ("b", tmp_path / "folder")):
        assert convert([str(source), str(tmp_path / f"{name}.safetensors"), "--to", "ldm"]) == 0
    a, b = load_file(tmp_path / "a.safetensors"), load_file(tmp_path / "b.safetensors")
    assert same(a, b)
    assert "cond_stage_model.embedding.weight" in b
    assert {key.split(".")[0] for key in b} == {"model", "first_stage_model", "cond_stage_model"}
    assert torch.equal(a[FIRST_STAGE + "encoder.conv_in.weight"], vae.state_dict()["encoder.conv_in.weight"])


def test_a_full_disk_does_not_end_the_run(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exporting, "export", full)
    assert lun("--base", OVERLAY, EVERY_2, "--max_steps", "3", "-t") == 0
    run = newest_run(tmp_path / "logs")
    assert not (run / "exports").exists()
    assert (run / "checkpoints" / "last.ckpt").exists()
    assert "could not export" in capsys.readouterr().out


def test_an_export_to_a_folder_of_raw_weights(lun: Lun, tmp_path: Path) -> None:
    options = (
        "lightning.callbacks.export={target: lun.callbacks.Export, params: {to: diffusers, ema: false, dtype: null,"
        " max_shard_size: 30KB}}"
    )
    assert lun(options, "--max_steps", "1", "-t") == 0
    run = newest_run(tmp_path / "logs")
    (folder,) = (run / "exports").iterdir()
    assert len(list((folder / "unet").glob("diffusion_pytorch_model-*.safetensors"))) > 1
    unet = UNet2DConditionModel.from_pretrained(folder / "unet", local_files_only=True)
    raw = load(run / "checkpoints" / "last.ckpt")["state_dict"][UNET + "out.2.weight"]
    assert torch.equal(unet.state_dict()["conv_out.weight"], raw)


def test_a_wish_that_is_not_known_stops_before_training(lun: Lun, capsys: pytest.CaptureFixture[str]) -> None:
    assert lun("--base", OVERLAY, "lightning.callbacks.export.params.dtype=fp8", "-t") == 2
    assert "fp8" in capsys.readouterr().err
    assert lun("--base", OVERLAY, "lightning.callbacks.export.params.max_shard_size=2GB", "-t") == 2
    assert "max_shard_size is for folders" in capsys.readouterr().err


def test_a_run_that_saved_nothing_is_refused(lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run" / "configs").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints").mkdir()
    assert convert([str(tmp_path / "run"), str(tmp_path / "x.safetensors"), "--to", "ldm"]) == 2
    assert "error[RES01]" in capsys.readouterr().err


def test_a_small_network_without_its_config_is_refused_in_words(
    lun: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lun("-t", "lightning.trainer.max_steps=1") == 0
    single, folder = str(tmp_path / "one.safetensors"), tmp_path / "folder"
    assert convert([str(tmp_path / "logs" / "latest"), single, "--to", "ldm"]) == 0
    capsys.readouterr()
    assert convert([single, str(folder), "--to", "diffusers"]) == 4
    assert "error[MOD03]" in capsys.readouterr().err and not folder.exists()
