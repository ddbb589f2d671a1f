"""Widths tracked through the whole program: resumed bit for bit, and made into any other width afterwards."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from support.runs import TINY, load, newest_run
from support.tiny_encoders import clip

from ldm.files.ema_snapshot import Snapshot, TensorFile
from lun.compare.compared_columns import Opening, Weights
from lun.compare.compared_sources import compared_sources
from lun.compare.open_column import open_column
from lun.measure.command import run as measure
from lun.posthoc_ema.command import run as averaged
from lun.trainer import run as run_program

OVERLAY = Path(__file__).parents[2] / "configs/options/ema-power.yaml"
STEPS = 12


def words(logs: Path, pictures: Path) -> list[str]:
    """The tiny run over the overlay, 4 snapshots and a validation set."""
    validation = "data.params.validation"
    return [
        *("--base", str(OVERLAY), str(TINY), "--logdir", str(logs), "--data_root", str(pictures)),
        *("-t", "lightning.callbacks.ema_snapshots.params.count=4", "lightning.trainer.val_check_interval=100"),
        *(f"model.params.scheduler_config.params.total_steps={STEPS}", f"{validation}.params.size=8"),
        *(f"{validation}.target=lun.data.local.Local", f"{validation}.params.data_root={pictures}"),
    ]


@pytest.fixture
def train(lun: Callable[..., int], tmp_path: Path, pictures: Path) -> Callable[..., int]:
    """`train(name, *arguments)`: exit code of a run of `words`."""
    return lambda *arguments: lun(*words(tmp_path / "logs", pictures), *arguments, base=False)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, pictures: Path) -> Path:
    """A whole run, which the tests below only read."""
    logs = tmp_path_factory.mktemp("logs")
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("LUN_THREADS", "1")
        assert run_program(words(logs, pictures)) == 0
    return newest_run(logs)


def averages(run: Path) -> dict[str, Any]:
    ema = load(run / "checkpoints/last.ckpt")["ema"]
    assert ema["same_as_ema"] == ["power-0.1"]
    found: dict[str, Any] = ema["tracks"]["power-0.05"]
    return found


def test_widths_are_resumed_bit_for_bit(
    train: Callable[..., int], lun: Callable[..., int], straight: Path, tmp_path: Path
) -> None:
    assert train("-n", "cut", "lightning.trainer.max_steps=7") == 0
    cut = newest_run(tmp_path / "logs")
    assert lun("-t", "--resume", str(cut), f"lightning.trainer.max_steps={STEPS}", base=False, data=None) == 0

    ours, theirs = averages(cut), averages(straight)
    assert ours["last_update"] == theirs["last_update"] == STEPS
    assert all(torch.equal(ours["weights"][name], theirs["weights"][name]) for name in theirs["weights"])
    folders = [run / "ema-snapshots" for run in (straight, cut)]
    assert TensorFile(folders[0] / "base.safetensors").keys() == TensorFile(folders[1] / "base.safetensors").keys()
    last = [Snapshot(folder / f"power-0.1-{STEPS:08d}.safetensors") for folder in folders]
    assert all(torch.equal(last[0][name], last[1][name]) for name in last[0])
    assert (last[0].about.attempt, last[1].about.attempt, last[1].about.began) == (1, 2, 7)


def test_a_run_leaves_as_many_snapshots_of_each_width_as_were_asked_for(straight: Path) -> None:
    names = [f"power-{width}-{step:08d}.safetensors" for width in ("0.05", "0.1") for step in (4, 6, 10, 12)]
    assert sorted(path.name for path in (straight / "ema-snapshots").iterdir()) == ["base.safetensors", *names]


def test_a_width_that_is_made_of_snapshots_is_the_one_that_was_tracked(straight: Path, tmp_path: Path) -> None:
    tracked, main, made = (str(tmp_path / f"{name}.safetensors") for name in ("tracked", "main", "made"))
    assert averaged(["export", str(straight), "--track", "power-0.05", "-o", tracked]) == 0
    assert averaged(["export", str(straight), "--track", "power-0.1", "-o", main]) == 0
    assert averaged(["reconstruct", str(straight), "--width", "0.05", "-o", made]) == 0
    like = ["--against", tracked, "--base", str(straight / "ema-snapshots/base.safetensors"), "--tolerance", "0.001"]
    assert averaged(["verify", made, *like]) == 0
    assert averaged(["verify", main, *like]) == 4


def test_a_column_of_a_comparison_has_the_weights_that_are_made_of_snapshots(straight: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.safetensors"
    assert averaged(["reconstruct", str(straight), "--width", "0.05", "-o", str(made)]) == 0
    (newest,) = compared_sources([str(straight)], newest=True)
    opened = open_column(Opening(newest, Weights(width=0.05)), {}, None)
    own = opened.model.state_dict()
    wanted = opened.model.from_disk(load_file(made))
    assert opened.weights == "power-0.05" and wanted.keys() <= own.keys()
    assert all(torch.equal(own[name], tensor) for name, tensor in wanted.items())


def test_widths_are_compared_by_their_distances(straight: Path, tmp_path: Path) -> None:
    assert averaged(["reconstruct", str(straight), "--width", "0.05,0.1", "--sweep", "-o", str(tmp_path / "s")]) == 0
    assert (tmp_path / "s.png").exists() and len((tmp_path / "s.csv").read_text().splitlines()) == 3


def test_averages_are_compared_by_a_number_of_the_validation(straight: Path, tmp_path: Path) -> None:
    (tmp_path / "mean.yaml").write_text("mean: {target: ldm.ema.weightings.LastSteps, params: {steps: 6}}")
    sweep = ["sweep", str(straight), "--width", "0.05,0.1", "--averages", str(tmp_path / "mean.yaml"), "--force"]
    assert averaged([*sweep, "--metric", "val/loss", "-o", str(tmp_path / "t")]) == 0
    told = json.loads((tmp_path / "t.json").read_text())
    values = {row["average"]: row["value"] for row in told["averages"]}
    assert told["metric"] == "val/loss" and values.keys() == {"0.05", "0.1", "mean"}
    assert told["best"] == min(values, key=lambda name: values[name]) and (tmp_path / "t.png").exists()
    assert averaged([*sweep, "--metric", "val/nothing", "-o", str(tmp_path / "u")]) == 2


def test_averages_are_compared_by_the_pictures_that_they_draw(
    train: Callable[..., int], tmp_path: Path, pictures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("-n", "drawn", "model.base_learning_rate=0.1") == 0
    (tmp_path / "prompts.txt").write_text("a red cat --s 2\na blue dog --d 7 --s 2\n")
    encoder = ["--clip", str(clip(tmp_path / "clip")), "--device", "cpu"]
    sweep = ["sweep", str(newest_run(tmp_path / "logs")), "--width", "0.05,0.1", *encoder, "--data", str(pictures)]
    drawn = ["--prompts", str(tmp_path / "prompts.txt"), "--guidance", "1", "-o"]
    assert averaged([*sweep, "--metric", "clip_score", *drawn, str(tmp_path / "a")]) == 0, capsys.readouterr().err
    told = json.loads((tmp_path / "a.json").read_text())
    values = {row["average"]: row["value"] for row in told["averages"]}
    assert told["best"] == max(values, key=lambda name: values[name]) and values["0.05"] != values["0.1"]
    assert (tmp_path / "a.png").exists() and len((tmp_path / "a.csv").read_text().splitlines()) == 3
    assert [path.name for path in sorted((tmp_path / "a/0.05").iterdir())] == ["0000-42.png", "0001-7.png"]
    with Image.open(tmp_path / "a/0.1/0001-7.png") as picture:
        assert json.loads(picture.info["lun"])["weights"] == "power-0.1"

    assert measure([str(tmp_path / "a/0.1"), str(pictures), *encoder, "-o", str(tmp_path / "measured")]) == 0
    measured = json.loads((tmp_path / "measured/measures.json").read_text())["numbers"]
    assert told["averages"][1]["numbers"] == pytest.approx(measured)

    capsys.readouterr()
    assert averaged([*sweep, "--metric", "nearest_clip", *drawn, str(tmp_path / "b")]) == 0
    assert json.loads((tmp_path / "b.json").read_text())["best"] is None
    assert "best     is yours to say" in capsys.readouterr().out
    (tmp_path / "a.csv").unlink(), (tmp_path / "a.json").unlink(), (tmp_path / "a.png").unlink()
    assert averaged([*sweep, "--metric", "cmmd", *drawn, str(tmp_path / "a")]) == 2
    assert f"{tmp_path / 'a'} is there already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("model.params.ema_config.params.widths=[]", "keeps no widths"),
        ("lightning.callbacks.ema_snapshots.params.count=1", "reconstruct nothing"),
        ("model.params.ema_config.params.start=never", "cannot start at 'never'"),
    ],
)
def test_settings_that_make_no_snapshots_are_one_clear_fault(
    train: Callable[..., int], setting: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("-n", "wrong", setting) == 2
    assert told in capsys.readouterr().err


def test_the_mean_of_the_last_steps_is_named_in_yaml_and_resumed_bit_for_bit(
    lun: Callable[..., int], tmp_path: Path
) -> None:
    profile = "{target: ldm.ema.profiles.TrailingMean, params: {steps: 4, blocks: 2}}"
    law = f"model.params.ema_config={{target: ldm.modules.ema.LitEma, params: {{update_every: 1, profile: {profile}}}}}"
    horizon = "model.params.scheduler_config.params.total_steps=9"
    assert lun("-t", law, horizon, "lightning.trainer.max_steps=9", "-n", "straight") == 0
    straight = newest_run(tmp_path / "logs")
    assert lun("-t", law, horizon, "lightning.trainer.max_steps=5", "-n", "cut") == 0
    cut = newest_run(tmp_path / "logs")
    raw = load(cut / "checkpoints/last.ckpt")["state_dict"]
    assert lun("-t", "--resume", str(cut), "lightning.trainer.max_steps=9", base=False, data=None) == 0
    theirs, ours = (load(run / "checkpoints/last.ckpt") for run in (straight, cut))
    assert theirs["state_dict"].keys() == ours["state_dict"].keys() == raw.keys()
    assert all(torch.equal(value, ours["state_dict"][key]) for key, value in theirs["state_dict"].items())
    blocks = [(block.get("start", 0), block["last_update"]) for block in ours["ema"]["blocks"]]
    assert blocks == [(4, 6), (6, 8), (8, 9)]
    for a, b in zip(theirs["ema"]["blocks"], ours["ema"]["blocks"], strict=True):
        assert all(torch.equal(a["weights"][name], b["weights"][name]) for name in a["weights"])
