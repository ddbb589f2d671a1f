"""Weights in every layout, through the command that a person uses."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.compvis import averaged, config_of, file_of_zeros, full_size, random_checkpoint
from support.runs import TINY, load, newest_run
from support.sd3 import VOCABULARY
from torch import Tensor

from ldm.families.sd1 import SD1_BASE
from ldm.families.whole_checkpoint import open_checkpoint
from ldm.files.write import write_safetensors
from ldm.keys.split_checkpoint import UNET
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.util import instantiate_from_config

Lun = Callable[..., int]
ONE_STEP = ["-t", "lightning.trainer.max_steps=1", "model.base_learning_rate=1e-30"]
CONFIGS = Path(__file__).parents[2] / "configs"
COND = "model.params.cond_stage_config.params"


@pytest.fixture
def state(pictures: Path) -> dict[str, Tensor]:
    return random_checkpoint(config_of([TINY], pictures))


def trained(logs: Path) -> dict[str, Tensor]:
    """The weights after a run whose learning rate moves nothing."""
    found: dict[str, Tensor] = load(newest_run(logs) / "checkpoints/last.ckpt")["state_dict"]
    return {key: value for key, value in found.items() if not key.startswith("model_ema.")}


def same(found: dict[str, Tensor], expected: dict[str, Tensor], prefix: str = "") -> bool:
    keys = [key for key in expected if key.startswith(prefix) and "." in key]
    return bool(keys) and all(torch.allclose(found[key], expected[key], rtol=0, atol=1e-6) for key in keys)


@pytest.mark.parametrize("ending", ["safetensors", "ckpt"])
def test_a_single_file_gives_every_part(lun: Lun, state: dict[str, Tensor], tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"sd.{ending}"
    if ending == "ckpt":
        torch.save({"state_dict": state}, path)
    else:
        write_safetensors(path, state)
    assert lun(*ONE_STEP, "--init-from", str(path)) == 0
    assert same(trained(tmp_path / "logs"), state)


def test_a_diffusers_folder_gives_every_part(lun: Lun, pictures: Path, tmp_path: Path) -> None:
    config = config_of([TINY], pictures)
    model: LatentDiffusion = instantiate_from_config(config["model"])
    model.configure_model()
    networks = {"unet": model.model.diffusion_model, "vae": model.first_stage_model}
    for name, network in networks.items():
        network.network.save_pretrained(tmp_path / "sd" / name)
    words = {key: value.contiguous() for key, value in model.cond_stage_model.state_dict().items()}
    write_safetensors(tmp_path / "sd/text_encoder/model.safetensors", words)
    (tmp_path / "sd/model_index.json").write_text(json.dumps({"_class_name": "StableDiffusionPipeline"}))
    assert lun(*ONE_STEP, "--init-from", str(tmp_path / "sd"), "-s", "5") == 0
    assert same(trained(tmp_path / "logs"), model.to_disk(model.state_dict()))


def test_a_run_directory_means_its_newest_checkpoint(lun: Lun, state: dict[str, Tensor], tmp_path: Path) -> None:
    write_safetensors(tmp_path / "sd.safetensors", state)
    assert lun(*ONE_STEP, "--init-from", str(tmp_path / "sd.safetensors"), "-n", "first") == 0
    first = newest_run(tmp_path / "logs")
    assert lun(*ONE_STEP, "--init-from", str(first), "-n", "second", "-s", "5") == 0
    second = newest_run(tmp_path / "logs")
    assert second != first
    assert same(trained(tmp_path / "logs"), state)
    assert str(first / "checkpoints/last.ckpt") in (second / "configs/resolved.yaml").read_text()


def test_a_part_can_come_from_a_whole_checkpoint_and_wins_over_the_models(
    lun: Lun, state: dict[str, Tensor], tmp_path: Path
) -> None:
    write_safetensors(tmp_path / "sd.safetensors", state)
    other = {key: value + 1 for key, value in state.items()}
    write_safetensors(tmp_path / "other.safetensors", other)
    own = f"model.params.first_stage_config.params.ckpt_path={tmp_path / 'other.safetensors'}"
    assert lun(*ONE_STEP, "--init-from", str(tmp_path / "sd.safetensors"), own) == 0
    found = trained(tmp_path / "logs")
    assert same(found, other, "first_stage_model.")
    assert same(found, state, "model.diffusion_model.")


def test_averaged_weights_are_taken_when_asked_for(
    lun: Lun, state: dict[str, Tensor], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ema = averaged(state, by=2.0)
    first = next(key for key in ema if key.endswith("weight"))
    write_safetensors(tmp_path / "sd.safetensors", state | {key: ema[key] for key in ema if key != first})
    with caplog.at_level(logging.INFO):
        line = ["--init-from", str(tmp_path / "sd.safetensors"), "model.params.init_from_ema=true"]
        assert lun(*ONE_STEP, *line) == 0
    found = trained(tmp_path / "logs")
    moved = [k for k in state if k.startswith("model.diffusion_model.") and torch.allclose(found[k], state[k] + 2)]
    assert len(moved) == sum(key.startswith("model.diffusion_model.") for key in state) - 1
    assert "1 of" in caplog.text and "raw ones there" in caplog.text


def test_asking_for_averaged_weights_that_are_not_there_is_a_fault(
    lun: Lun, state: dict[str, Tensor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_safetensors(tmp_path / "sd.safetensors", state)
    line = ["--init-from", str(tmp_path / "sd.safetensors"), "model.params.init_from_ema=true"]
    assert lun(*ONE_STEP, *line) == 4
    assert "holds no averaged (EMA) weights" in capsys.readouterr().err


def test_the_unet_alone_can_be_taken(lun: Lun, state: dict[str, Tensor], tmp_path: Path) -> None:
    write_safetensors(tmp_path / "sd.safetensors", state)
    line = ["--init-from", str(tmp_path / "sd.safetensors"), "model.params.load_only_unet=true"]
    assert lun(*ONE_STEP, *line) == 0
    found = trained(tmp_path / "logs")
    assert same(found, state, "model.diffusion_model.")
    assert not same(found, state, "first_stage_model.")


def test_ignored_keys_keep_their_initial_values(lun: Lun, state: dict[str, Tensor], tmp_path: Path) -> None:
    odd = "model.diffusion_model.input_blocks.0.0.weight"
    write_safetensors(tmp_path / "sd.safetensors", state | {odd: torch.ones(8, 9, 3, 3)})
    line = ["--init-from", str(tmp_path / "sd.safetensors"), "model.params.ignore_keys=[" + odd + "]"]
    assert lun(*ONE_STEP, *line) == 0
    found = trained(tmp_path / "logs")
    assert found[odd].shape == state[odd].shape
    assert same(found, {key: value for key, value in state.items() if key != odd})


def test_a_known_prediction_that_differs_from_the_configs_is_a_warning(
    lun: Lun, state: dict[str, Tensor], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    state = state | {"v_pred": torch.zeros(0)}
    write_safetensors(tmp_path / "sd.safetensors", state, {"modelspec.prediction_type": "flow"})
    assert lun(*ONE_STEP, "--init-from", str(tmp_path / "sd.safetensors")) == 0
    assert "says that it predicts flow, but its tensor v_pred says v" in caplog.text
    assert "trained to predict flow; this run trains it to predict eps" in caplog.text


def test_a_checkpoint_that_lacks_a_part_says_what_it_holds(
    lun: Lun, state: dict[str, Tensor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    only = {key: value for key, value in state.items() if key.startswith("first_stage_model.")}
    write_safetensors(tmp_path / "vae.safetensors", only)
    scratch = "model.params.unet_config.params.from_scratch=false"
    assert lun("-t", scratch, "--init-from", str(tmp_path / "vae.safetensors")) == 4
    said = capsys.readouterr().err
    assert "error[MOD06]: the UNet got no weights" in said
    assert "vae.safetensors holds: VAE" in said


def test_a_text_encoder_that_only_the_hub_has_is_a_fault_before_anything_is_written(
    lun: Lun, state: dict[str, Tensor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = {key: value for key, value in state.items() if not key.startswith("cond_stage_model.")}
    write_safetensors(tmp_path / "sd.safetensors", rest)
    encoder = "model.params.cond_stage_config={target: ldm.modules.encoders.clip.FrozenCLIPEmbedder, "
    encoder += "params: {version: no-such-organisation/no-such-model}}"
    assert lun("-t", encoder, "--init-from", str(tmp_path / "sd.safetensors")) == 4
    assert 'error[MOD01]: cannot find the model "no-such-organisation/no-such-model"' in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()


def test_broken_weights_end_the_start_with_their_name(
    lun: Lun, state: dict[str, Tensor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = next(key for key in state if key.startswith("model.diffusion_model."))
    write_safetensors(tmp_path / "sd.safetensors", state | {key: state[key] * float("nan")})
    assert lun("-t", "--init-from", str(tmp_path / "sd.safetensors")) == 4
    assert "holds broken weights: NaN in 1 of" in capsys.readouterr().err


def shipped(name: str, data: Path) -> dict[str, Any]:
    return config_of([CONFIGS / file for file in ("training-txt2img.yaml", f"models/{name}.yaml")], data)


@pytest.mark.parametrize(
    ("built", "given", "named"),
    [
        ("sd15", "sd21-v", "use configs/models/sd21-v.yaml"),
        ("sd21-base", "sd15", "use configs/models/sd15.yaml"),
        ("sd15", "sdxl", "use configs/models/sdxl.yaml"),
        ("sd15", "sd15-inpainting", "use configs/models/sd15-inpainting.yaml"),
        ("sd35-medium", "sd3-medium", "use configs/models/sd3-medium.yaml"),
    ],
)
def test_another_family_is_one_message_that_names_its_config(
    lun: Lun, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], built: str, given: str, named: str
) -> None:
    state = full_size(shipped(given, pictures))
    words = []
    if built.startswith("sd3"):  # the network alone: a file of all parts is larger than this machine's memory may be
        state = {key: value for key, value in state.items() if key.startswith(UNET)}
        words = [f"{COND}.tokenizer_3={VOCABULARY}", f"{COND}.from_scratch=true"]
        words += ["model.params.first_stage_config.params.from_scratch=true"]
    path = file_of_zeros(tmp_path / "given.safetensors", state)
    files = [str(CONFIGS / file) for file in ("training-txt2img.yaml", f"models/{built}.yaml")]
    line = ["--base", *files, "--data_root", str(pictures), "--accelerator", "cpu", "--init-from", str(path)]
    assert lun(*line, *words, "-t", "--logdir", str(tmp_path / "logs"), base=False) == 4
    said = capsys.readouterr().err
    assert said.count("error[") == 1
    assert "given.safetensors does not fit this model" in said
    assert "it holds Stable Diffusion" in said and "the config builds Stable Diffusion" in said
    assert "686 tensors compared" in said or "tensors compared" in said
    assert named in said
    assert len(said.splitlines()) < 12
    assert not (tmp_path / "logs").exists()


@pytest.mark.slow
def test_a_full_size_checkpoint_is_loaded_whole(pictures: Path, tmp_path: Path) -> None:
    config = shipped("sd15", pictures)
    path = file_of_zeros(tmp_path / "sd.safetensors", full_size(config))
    assert open_checkpoint(path).describe().variant is SD1_BASE
    config["model"]["params"]["ckpt_path"] = str(path)
    model: LatentDiffusion = instantiate_from_config(config["model"])
    model.require_weights()
    model.configure_model()
    assert sum(parameter.numel() for parameter in model.parameters()) == 1_066_235_307
    tensors = [*model.parameters(), *model.buffers()]
    assert not any(tensor.is_meta for tensor in tensors)
    assert not any(parameter.any() for parameter in model.parameters())


def test_a_file_of_one_part_gives_that_part_and_it_is_said_which_start_from_noise(
    lun: Lun, state: dict[str, Tensor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = {key: value for key, value in state.items() if key.startswith("first_stage_model.")}
    write_safetensors(tmp_path / "vae.safetensors", part)
    assert lun(*ONE_STEP, "--init-from", str(tmp_path / "vae.safetensors")) == 0
    assert same(trained(tmp_path / "logs"), part)
    assert "UNet, text encoder from scratch" in capsys.readouterr().out


def test_a_file_of_which_no_part_takes_anything_is_refused(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_safetensors(tmp_path / "embedding.safetensors", {"emb_params": torch.zeros(2, 8)})
    assert lun("--init-from", str(tmp_path / "embedding.safetensors")) == 4
    assert "gives this model nothing" in capsys.readouterr().err
