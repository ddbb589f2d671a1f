"""The demo learns: what its captions name, and combinations that it never saw."""

import json
import sys
from pathlib import Path

import pytest
import torch
import yaml
from support.runs import newest_run

from ldm.models.autoencoder_metrics import psnr
from ldm.modules.posterior import Posterior
from ldm.util import instantiate_from_config
from lun.data.local import Local
from lun.trainer import run

ROOT = Path(__file__).parents[2]
DEMO = ["--base", "configs/training-lightning.yaml", "configs/demo/emoji.yaml", "-t"]


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("LUN_THREADS", "1")  # two threads on a busy machine wait for each other most of the time
    return tmp_path / "logs"


def test_sixty_steps_bring_the_loss_down_by_a_quarter(demo: Path) -> None:
    steps = ["lightning.trainer.max_steps=60", "lightning.trainer.val_check_interval=20"]
    assert run([*DEMO, "-l", str(demo), *steps, "lightning.callbacks.image_logger=null"]) == 0
    rows = [json.loads(line) for line in (newest_run(demo) / "metrics.jsonl").read_text().splitlines()]
    losses = [row["val/loss_simple"] for row in rows if "val/loss_simple" in row]
    assert losses[-1] < 0.75 * losses[0]


def test_every_prompt_is_a_combination_that_is_held_out() -> None:
    config = yaml.safe_load((ROOT / "configs/demo/emoji.yaml").read_text())
    prompts = config["lightning"]["callbacks"]["image_logger"]["params"]["prompts"]
    held_out, trained = (
        {file.read_text().strip() for file in (ROOT / f"configs/demo/data/{split}/txt").glob("*.txt")}
        for split in ("held-out", "train")
    )
    assert set(prompts) == held_out and len(prompts) == 24
    assert not held_out & trained


@torch.no_grad()
def test_the_first_stage_draws_what_it_never_saw_and_its_latents_are_scaled_to_one(demo: Path) -> None:
    params = yaml.safe_load((ROOT / "configs/demo/emoji.yaml").read_text())["model"]["params"]
    first_stage = instantiate_from_config(params["first_stage_config"])
    for split, least in (("train", 35.5), ("held-out", 28.0)):
        pictures = Local(f"configs/demo/data/{split}", size=32)
        real = torch.stack([pictures.picture(index, False)["image"] for index in range(len(pictures))]).movedim(-1, 1)
        posterior = Posterior.of(first_stage.encode_moments(real))
        assert psnr(real, first_stage.decode(posterior.mean)).mean() > least
        assert params["scale_factor"] * posterior.mean.std().item() == pytest.approx(1.0, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["emoji", "emoji-flow"])
def test_combinations_that_were_never_seen_are_drawn_right(
    objective: str, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "scripts"), *sys.path])
    from check_demo import judge, newest_samples

    assert run(["--base", f"configs/demo/{objective}.yaml", "-t", "-l", str(demo)]) == 0
    background, subject = judge(newest_samples(newest_run(demo)))
    assert background >= 23 and subject >= 20
