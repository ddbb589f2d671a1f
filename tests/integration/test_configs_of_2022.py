"""Configurations and command lines of 2022 run as they are, but for sizes, on a checkpoint of that time."""

import logging
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.board import put_board
from support.compvis import averaged, config_of, random_checkpoint
from support.runs import load, newest_run

from lun.trainer import run

Lun = Callable[..., int]
COMPAT = Path(__file__).parents[1] / "fixtures" / "compat"
GENERATIONS = {
    "first": ["lightning-first.yaml", "txt2img.yaml", "data-first.yaml"],
    "second": ["lightning-second.yaml", "txt2img.yaml", "data-second.yaml"],
}


def files_of(generation: str) -> list[Path]:
    return [COMPAT / name for name in GENERATIONS[generation]]


@pytest.fixture
def checkpoint(tmp_path: Path, pictures: Path) -> Path:
    """A random .ckpt as CompVis published them: wrapped weights, schedule, EMA, and a step."""
    state = random_checkpoint(config_of(files_of("second"), pictures, "lightning=null"))
    torch.save({"state_dict": state | averaged(state), "global_step": 470000}, tmp_path / "sd_v_1_4_with_ema.ckpt")
    return tmp_path / "sd_v_1_4_with_ema.ckpt"


@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_first_start_runs_and_tells_each_translation_once(
    generation: str,
    lun: Lun,
    checkpoint: Path,
    pictures: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs = tmp_path / "logs"
    line = ["model.base_learning_rate=2.5e-6", "lightning.trainer.accumulate_grad_batches=1"]
    line += ["data.params.batch_size=2", "--base", *map(str, files_of(generation)), "--train=True"]
    line += ["--accelerator", "cpu", "--devices", "1", "--actual_resume", str(checkpoint), "-n", "0"]
    line += ["--logdir", str(logs), "--data_root", str(pictures), "--datadir_in_name=False"]
    with caplog.at_level(logging.INFO):
        assert lun(*line, base=False) == 0
    said = caplog.text
    assert said.count("old import paths are read as their successors") == 1
    assert said.count("differs from translunar-diffusion: the learning rate is taken as written") == 1
    assert said.count("the EMA is that of translunar-diffusion") == 1
    assert "ldm layout: UNet, VAE, text encoder of width 8, EMA" in said
    finished = load(newest_run(logs) / "checkpoints/last.ckpt")
    assert finished["global_step"] == 6  # 11 pictures, two a step, once through
    before = torch.load(checkpoint, weights_only=True)["state_dict"]
    for key, value in finished["state_dict"].items():
        if key.startswith(("first_stage_model.", "cond_stage_model.")):
            assert torch.equal(value, before[key]), key
    moved = [key for key in before if key.startswith("model.diffusion_model.")]
    assert all((finished["state_dict"][key] - before[key]).abs().max() < 1e-3 for key in moved)
    assert any(not torch.equal(finished["state_dict"][key], before[key]) for key in moved)


def run_of_2022(folder: Path, checkpoint: Path, files: list[Path], with_ema: bool, **training: Any) -> Path:
    """A run directory as the old program left it: configs in two files, a checkpoint without optimizer state.

    training  what Lightning stored beside the weights
    """
    (folder / "configs").mkdir(parents=True)
    (folder / "checkpoints").mkdir()
    texts = {
        name: (COMPAT / file).read_text() for name, file in zip(("lightning", "model", "data"), files, strict=True)
    }
    (folder / "configs/2022-09-26T21-18-20-lightning.yaml").write_text(texts["lightning"])
    (folder / "configs/2022-09-26T21-18-20-project.yaml").write_text(texts["model"] + texts["data"])
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    if not with_ema:
        state = {key: value for key, value in state.items() if not key.startswith("model_ema.")}
    old = {"epoch": 2, "global_step": 11, "pytorch-lightning_version": "1.7.6", "loops": {"fit_loop": {}}}
    torch.save({**old, **training, "state_dict": state}, folder / "checkpoints/every-3k-steps.ckpt")
    return folder


def optimizer_of_2022(checkpoint: Path) -> dict[str, Any]:
    """AdamW's state as Lightning 1.4 stored it: by index, in the order of CompVis' UNet; and classes as keys."""
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    unet = [value for key, value in state.items() if key.startswith("model.diffusion_model.")]
    moments = {i: {"step": 11, "exp_avg": w + 7, "exp_avg_sq": w * 0 + 9} for i, w in enumerate(unet)}
    group = {"lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01, "amsgrad": False}
    saver = type("ModelCheckpoint", (), {"__module__": "pytorch_lightning.callbacks.model_checkpoint"})
    return {
        "optimizer_states": [{"state": moments, "param_groups": [group | {"params": list(range(len(unet)))}]}],
        "lr_schedulers": [{"last_epoch": 11, "_step_count": 12, "base_lrs": [1e-4], "_last_lr": [1e-4]}],
        "callbacks": {saver: {"best_model_score": None, "best_model_path": ""}},
        "pytorch-lightning_version": "1.4.2",
    }


@pytest.mark.parametrize("kind", ["optimizer of Lightning 1.4", "empty lists"])
def test_the_optimizer_of_another_program_is_left_out_and_told(
    kind: str,
    lun: Lun,
    checkpoint: Path,
    pictures: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    training: dict[str, Any] = {"optimizer_states": [], "lr_schedulers": []}
    told = "has no optimizer state: optimizer and schedule start afresh"
    if kind != "empty lists":
        training = optimizer_of_2022(checkpoint)
        for saver in training["callbacks"]:
            module = types.ModuleType(saver.__module__)
            module.ModelCheckpoint = saver  # type: ignore[attr-defined]
            monkeypatch.setitem(sys.modules, saver.__module__, module)
        told = "holds the optimizer of another program"
    old = run_of_2022(tmp_path / "logs/2022-09-26T21-18-20_v1.4", checkpoint, files_of("second"), True, **training)
    monkeypatch.undo()
    line = ["-r", str(old), "-t", "--accelerator", "cpu", "--devices", "1", "--data_root", str(pictures)]
    line += ["lightning.trainer.max_epochs=null", "lightning.trainer.max_steps=12"]
    with caplog.at_level(logging.INFO):
        assert lun(*line, base=False) == 0
    assert told in caplog.text and "at step 11" in caplog.text
    finished = load(old / "checkpoints/last.ckpt")
    (states,) = finished["optimizer_states"]
    assert {float(entry["step"]) for entry in states["state"].values()} == {1.0}
    assert all(entry["exp_avg"].abs().max() < 1 for entry in states["state"].values())


@pytest.mark.parametrize("with_ema", [True, False])
def test_a_run_of_2022_goes_on_with_step_epoch_and_ema(
    with_ema: bool, lun: Lun, checkpoint: Path, pictures: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = run_of_2022(tmp_path / "logs/2022-09-26T21-18-20_v1.4", checkpoint, files_of("first"), with_ema)
    line = ["model.base_learning_rate=2.5e-6", "data.params.batch_size=2", "--train=True", "--accelerator", "cpu"]
    line += ["--devices", "1", "--resume", f"{old}/", "--logdir", str(tmp_path / "logs"), "--data_root", str(pictures)]
    line += ["--datadir_in_name=False", "lightning.trainer.max_epochs=null", "lightning.trainer.max_steps=13"]
    with caplog.at_level(logging.INFO):
        assert lun(*line, base=False) == 0
    assert "has no optimizer state: optimizer and schedule start afresh" in caplog.text
    assert "resumed " in caplog.text and "at step 11" in caplog.text
    finished = load(old / "checkpoints/last.ckpt")
    assert finished["global_step"] == 13
    assert finished["epoch"] == 2  # two windows into the third time round
    assert finished["lun"]["position"]["slot"] == 2 * 11 + 2 * 2
    before = torch.load(checkpoint, weights_only=True)["state_dict"]
    stored = "model_ema.diffusion_modelinput_blocks00weight"
    raw = before["model.diffusion_model.input_blocks.0.0.weight"]
    expected = before[stored] if with_ema else raw
    assert torch.allclose(finished["state_dict"][stored], expected, atol=1e-4)
    assert ("holds no EMA weights" in caplog.text) is not with_ema


def test_a_users_own_module_in_lun_local_is_found(lun: Lun, checkpoint: Path, pictures: Path, tmp_path: Path) -> None:
    drawer = tmp_path / "cwd/lun/local"
    drawer.mkdir(parents=True)
    (drawer / "seen.py").write_text(
        "from lightning.pytorch import Callback\nfrom pathlib import Path\n"
        "class Seen(Callback):\n"
        "    def on_train_start(self, trainer, pl_module):\n"
        "        Path('seen').touch()\n"
    )
    line = ["--base", *map(str, files_of("second")), "--init-from", str(checkpoint), "--data_root", str(pictures), "-t"]
    line += ["--logdir", str(tmp_path / "logs"), "--accelerator", "cpu", "lightning.trainer.max_steps=1"]
    assert lun(*line, "lightning.callbacks.mine.target=lun.local.seen.Seen", base=False) == 0
    assert (tmp_path / "cwd/seen").exists()


def test_the_whole_of_another_family_is_one_message(
    pictures: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = "model.params.unet_config.params.context_dim=16"
    line = ["--base", *map(str, files_of("second")), "--init-from", str(checkpoint), "--data_root", str(pictures), wide]
    assert run([*line, "-t", "--logdir", str(tmp_path / "logs")]) == 4
    said = capsys.readouterr().err
    assert "error[MOD03]" in said
    assert "tensors compared" in said
    assert not (tmp_path / "logs").exists()


def test_board_pictures_with_filters_and_replacements_run_as_they_were_written(
    lun: Lun, checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tags = [["princess luna", "solo"], ["artist:someone", "high res"], ["animated"], ["sketch"]]
    scores = [150, 900, 900, 210]
    records = {
        f"{i % 2}/{i}": {"path": f"img/{i}.png", "tags": tags[i % 4], "score": scores[i % 4], "aspect_ratio": 1.0}
        for i in range(8)
    }
    board = put_board(tmp_path / "board", records)
    files = [COMPAT / name for name in ("lightning-second.yaml", "txt2img.yaml", "data-metadata.yaml")]
    line = ["--base", *map(str, files), "--train=True", "--accelerator", "cpu", "--devices", "1", "-n", "0"]
    line += ["--actual_resume", str(checkpoint), "--logdir", str(tmp_path / "logs"), "--data_root", str(board)]
    with caplog.at_level(logging.INFO):
        assert lun(*line, "data.params.batch_size=2", base=False) == 0
    finished = load(newest_run(tmp_path / "logs") / "checkpoints/last.ckpt")
    # luna and someone are left, twice each: solo lifts luna to 250, sketch brings the fourth down to 135
    assert (finished["lun"]["data"]["n"], finished["global_step"]) == (4, 2)
    assert "DAT10" in caplog.text  # both read the same folder, as was usual
