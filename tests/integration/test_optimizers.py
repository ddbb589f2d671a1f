"""The presets of optimizers learn the demo, each at the learning rate that it carries."""

import json
from pathlib import Path

import pytest
from support.runs import newest_run

from lun.trainer import run

ROOT = Path(__file__).parents[2]
LEARNT = {"lion": 0.3, "prodigy": 0.7}
"""The most that the loss may be after 100 steps, by preset; 1.1 is untrained, AdamW reaches 0.22."""


def loss_after(steps: int, preset: str, logs: Path) -> float:
    """The averaged weights' validation loss; the demo's steps with fewer pictures, and a shorter warm-up."""
    words = [f"lightning.trainer.max_steps={steps}", f"lightning.trainer.val_check_interval={steps}"]
    words += [f"model.params.scheduler_config.params.warm_up_steps={steps // 5}"]
    words += ["lightning.callbacks.image_logger=null"]
    words += ["data.params.batch_size=16", "lightning.trainer.num_sanity_val_steps=0", "-l", str(logs)]
    assert run(["--base", "emoji", preset, *words, "-t"]) == 0
    rows = map(json.loads, (newest_run(logs) / "metrics.jsonl").read_text().splitlines())
    return next(float(row["val/loss_simple_ema"]) for row in rows if "val/loss_simple_ema" in row)


@pytest.fixture(autouse=True)
def _at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("LUN_THREADS", "1")


def test_an_optimizers_preset_begins_to_learn_at_its_own_rate(tmp_path: Path) -> None:
    assert loss_after(20, "lion", tmp_path) < 0.6


@pytest.mark.slow
@pytest.mark.parametrize("preset", LEARNT)
def test_every_optimizers_preset_learns_at_its_own_rate(preset: str, tmp_path: Path) -> None:
    assert loss_after(100, preset, tmp_path) < LEARNT[preset]
