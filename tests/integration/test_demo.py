"""The demo learns: what its captions name, and combinations that it never saw."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
import yaml
from support.runs import newest_run

from ldm.models.autoencoder_metrics import psnr
from ldm.models.pixels import centred
from ldm.modules.posterior import Posterior
from ldm.util import instantiate_from_config
from lun.data.local import Local
from lun.sample.command import run as sample
from lun.trainer import run

ROOT = Path(__file__).parents[2]
DEMO = ["--demo"]
PROMPTS = yaml.safe_load((ROOT / "configs/demo/emoji.yaml").read_text())["lightning"]["callbacks"]["image_logger"][
    "params"
]["prompts"]
Samples = dict[str, np.ndarray]


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
    held_out, trained = (
        {file.read_text().strip() for file in (ROOT / f"configs/demo/data/{split}/txt").glob("*.txt")}
        for split in ("held-out", "train")
    )
    assert set(PROMPTS) == held_out and len(PROMPTS) == 24
    assert not held_out & trained


def test_the_lora_of_new_emoji_is_a_whole_config_of_rank_4_over_its_preset(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--base", "emoji-lora", "--check"]) == 0
    capsys.readouterr()
    assert run(["--base", "emoji-lora", "--print-config"]) == 0
    kind = yaml.safe_load(capsys.readouterr().out)["model"]["params"]["adapter_config"]["params"]["rules"]["attention"]
    assert kind["kind"]["params"] == {"rank": 4, "alpha": 4, "dropout": 0.0}


def test_the_word_of_the_demo_is_learnt_from_four_pictures_that_do_not_say_what_it_stands_for(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--base", "emoji-ti", "--print-config"]) == 0
    data = yaml.safe_load(capsys.readouterr().out)["data"]["params"]
    read, held_out = (instantiate_from_config(data[part]) for part in ("train", "validation"))
    colours = ("black", "blue", "red", "yellow")
    assert [read.captions.made(row, None) for row in read.rows] == [f"<new>, {colour} background" for colour in colours]
    assert [held_out.captions.made(row, None) for row in held_out.rows] == ["<new>, orange background"]


@torch.no_grad()
def test_the_first_stage_draws_what_it_never_saw_and_its_latents_are_scaled_to_one(demo: Path) -> None:
    params = yaml.safe_load((ROOT / "configs/demo/emoji.yaml").read_text())["model"]["params"]
    first_stage = instantiate_from_config(params["first_stage_config"])
    for split, least in (("train", 35.5), ("held-out", 28.0)):
        pictures = Local(f"configs/demo/data/{split}", size=32)
        read = torch.stack([pictures.picture(index, False)["image"] for index in range(len(pictures))])
        real = centred(read).movedim(-1, 1)
        posterior = Posterior.of(first_stage.encode_moments(real))
        assert psnr(real, first_stage.decode(posterior.mean)).mean() > least
        assert params["scale_factor"] * posterior.mean.std().item() == pytest.approx(1.0, abs=0.01)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's run, to its end."""
    logs = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(ROOT)
        monkeypatch.setenv("LUN_THREADS", "1")
        assert run([*DEMO, "-l", str(logs)]) == 0
    return newest_run(logs)


@pytest.fixture(scope="module")
def checks() -> ModuleType:
    """`scripts/check_demo.py`."""
    spec = importlib.util.spec_from_file_location("check_demo", ROOT / "scripts" / "check_demo.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_word_of_ones_own_is_judged_by_what_it_stands_for(checks: ModuleType) -> None:
    drawn = {"<new>, red background": np.zeros(1), "fox, red background": np.ones(1)}
    assert list(checks.meaning(drawn, {"<new>": "frog"})) == ["frog, red background", "fox, red background"]
    with pytest.raises(SystemExit, match="no prompt starts with <old>"):
        checks.meaning(drawn, {"<old>": "frog"})


def of(samples: Samples, *subjects: str) -> Samples:
    return {prompt: pixels for prompt, pixels in samples.items() if prompt.split(", ")[0] in subjects}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_combinations_that_were_never_seen_are_drawn_right(trained: Path, checks: ModuleType) -> None:
    background, subject = checks.judge(checks.newest_samples(trained))
    assert background >= 23 and subject >= 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_combinations_that_were_never_seen_are_drawn_right_by_rectified_flow(demo: Path, checks: ModuleType) -> None:
    assert run(["--base", "configs/demo/emoji-flow.yaml", "-t", "-l", str(demo)]) == 0
    background, subject = checks.judge(checks.newest_samples(newest_run(demo)))
    assert background >= 23 and subject >= 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_lora_of_rank_4_teaches_two_emoji_and_leaves_those_that_the_model_knew(
    trained: Path, demo: Path, tmp_path: Path, checks: ModuleType
) -> None:
    assert sample([str(trained), "--count", "4", "--captions", "-o", str(tmp_path / "known")]) == 0
    line = ["--base", "emoji-lora", "--init-from", str(trained), "--data_root", f"known={tmp_path / 'known'}"]
    assert run([*line, "-t", "-l", str(demo)]) == 0
    samples = checks.newest_samples(newest_run(demo))
    assert checks.judge(of(samples, "penguin"))[1] >= 7
    assert checks.judge(of(samples, "strawberry"))[1] >= 7
    assert checks.judge({prompt: samples[prompt] for prompt in PROMPTS})[1] == 24


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_textual_inversion_finds_the_vector_of_what_the_model_can_draw(
    trained: Path, demo: Path, checks: ModuleType
) -> None:
    assert run(["--base", "emoji-ti", "--init-from", str(trained), "-t", "-l", str(demo)]) == 0
    samples = checks.meaning(checks.newest_samples(newest_run(demo)), {"<new>": "frog"})
    background, subject = checks.judge(samples)
    assert len(samples) == 8 and background >= 7 and subject >= 7
