"""Several sets in one run: from one file to metrics by name, and a set that grows in the middle."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support.equality import differences, final_state
from support.runs import load, make_pictures, newest_run

Lun = Callable[..., int]


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A config of two sets in folders beside it."""
    local, size = "lun.data.local.Local", {"size": 8, "flip_p": 0.0}
    cats, dogs = (make_pictures(tmp_path / name, 5 + seed, seed) for seed, name in enumerate(("cats", "dogs")))
    sets = {
        "cats": {"target": local, "params": {"data_root": str(cats), **size}, "weight": 2, "timesteps": [0, 500]},
        "dogs": {"target": local, "params": {"data_root": str(dogs), **size}, "weight": 1, "loss_weight": 0.5},
    }
    path = tmp_path / "two.yaml"
    path.write_text(yaml.safe_dump({"data": {"params": {"train": {"sets": sets}}}}))
    return path


LORA = (
    "model.params.adapter_config={target: ldm.adapters.Adapters, params: {rules: {all: {match: 'unet.*to_*',"
    " kind: {target: ldm.adapters.LoRA, params: {rank: 2}}}}}}"
)
PRIOR = ["data.params.train.sets.dogs.kind=prior", LORA, "model.params.cond_stage_trainable=false"]


def test_a_chain_over_two_sets_equals_the_straight_run_and_is_logged_by_name(
    lun: Lun, tmp_path: Path, two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--base", str(two), *PRIOR, "lightning.trainer.accumulate_grad_batches=2"]
    horizon = "model.params.scheduler_config.params.total_steps=6"
    assert lun(*words, "-t", "-n", "straight", horizon, "lightning.trainer.max_steps=6", data=None) == 0
    said = capsys.readouterr().out
    assert (
        "cats: 5 images" in said
        and "66.7% of what is read" in said
        and "learns what the base predicts" in said
        and f"cats: {tmp_path / 'cats'}" in said
    )
    run = newest_run(tmp_path / "logs")
    straight = final_state(run)
    rows = [json.loads(row) for row in (run / "metrics.jsonl").read_text().splitlines()]
    laps = [row["lap/cats"] for row in rows if "lap/cats" in row]
    assert len(laps) == 6 and laps[-1] == pytest.approx(24 * 2 / 3 / 5, abs=0.5)
    require_losses_by_set(rows)
    assert lun(*words, "-t", "-n", "chain", horizon, "lightning.trainer.max_steps=3", data=None) == 0
    run = newest_run(tmp_path / "logs")
    again = ["-r", str(run), "-t", "lightning.trainer.max_steps=6"]
    assert lun(*again, base=False) == 0
    assert differences(straight, final_state(run)) == []


def require_losses_by_set(rows: list[dict[str, float]]) -> None:
    """Each step's loss is the mean of those of its sets over their four examples; the base's own is nearly kept."""
    by_step = {row["step"]: {**row} for row in rows if "train/loss" in row}
    for row in rows:
        told = {name: row[f"train/loss/{name}"] for name in ("cats", "dogs") if f"train/loss/{name}" in row}
        if told and len(told) == 2:
            low, high = sorted(told.values())
            assert low <= by_step[row["step"]]["train/loss"] <= high
    assert all(0 <= row["train/loss/dogs"] < 0.05 for row in rows if "train/loss/dogs" in row)
    assert any("train/loss/dogs" in row for row in rows) and any(row.get("train/loss/cats", 0) > 0.2 for row in rows)


def test_a_set_that_grew_is_named_and_the_rest_goes_on(
    lun: Lun, tmp_path: Path, two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lun("--base", str(two), "-t", "lightning.trainer.max_steps=4", data=None) == 0
    run = newest_run(tmp_path / "logs")
    before = load(run / "checkpoints/last.ckpt")["lun"]
    make_pictures(tmp_path / "dogs", 9, 1)
    again = ["-r", str(run), "-t", "lightning.trainer.max_steps=6"]
    capsys.readouterr()
    assert lun(*again, base=False) == 2
    refused = capsys.readouterr().err
    assert "set dogs: examples: 6 -> 9" in refused and "--accept-change data:dogs" in refused
    assert lun(*again, "--accept-change", "data:cats", base=False) == 2
    assert lun(*again, "--accept-change", "data:dogs", base=False) == 0
    assert "data:dogs changed as accepted; the rest goes on where it was" in capsys.readouterr().out
    after = load(run / "checkpoints/last.ckpt")["lun"]
    assert after["position"]["slot"] == before["position"]["slot"] + 2 * after["data"]["global_batch"]
    assert after["data"]["start"]["slot"] == before["position"]["slot"]
    assert lun(*again[:-1], "lightning.trainer.max_steps=7", base=False) == 0


def test_sets_in_buckets_from_a_cache(lun: Lun, tmp_path: Path, two: Path) -> None:
    words = [
        "data.params.buckets={resolutions: [8], step: 4}",
        "data.params.cache=true",
        "lightning.trainer.max_steps=3",
    ]
    assert lun("--base", str(two), "-t", *words, data=None) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--data_root", "DIR"], "--data_root cats=DIR --data_root dogs=DIR"),
        (["data.params.train.sets.cats.repeats=2"], "has repeats and a weight"),
        (["data.params.train.sets.cats.weight=0"], "cats.weight cannot be 0"),
        (["data.params.train.sets.cats.weight=two"], "cats.weight: expected float, got 'two'"),
        (["data.params.train.sets.cats.wieght=2"], "data.params.train.sets.cats.weight=2"),
        (["data.params.train.sets.cats.params.sise=2"], "unknown setting data.params.train.sets.cats.params.sise"),
        (["data.params.train.sets.cats.kind=prior"], "unet.conv_in.weight and"),
        ([*PRIOR, "lightning.trainer.strategy=fsdp"], "prior cannot be trained under fsdp"),
        (["data.params.train.params.size=8"], "sets and a recipe of its own"),
        (["data.params.train.sets.cats.resolutions=[8]"], "no effect without data.params.buckets"),
        (["data.params.train.sets.cats.params.size=16"], "the sets have different sizes"),
        (["--data_root", "cats=nowhere"], "data folder not found: nowhere"),
        (["data.params.validation={sets: {}}"], "data.params.validation takes no sets"),
    ],
)
def test_bad_input_of_sets_is_one_message(
    lun: Lun, two: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = lun("--base", str(two), *words, data=None)
    said = capsys.readouterr()
    assert code in (2, 3), said
    assert told in said.err
    assert said.err.count("error[") == 1


def test_an_empty_set_is_named(lun: Lun, two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "none").mkdir()
    assert lun("--base", str(two), "--data_root", f"dogs={tmp_path / 'none'}", data=None) == 3
    said = capsys.readouterr().err
    assert "(set dogs)" in said and "--data_root dogs=DIR" in said


def test_pictures_of_two_sets_are_told(lun: Lun, two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lun("--base", str(two), "--data_root", f"dogs={tmp_path / 'cats'}", data=None) == 0
    assert "5 images are in both sets cats and dogs" in capsys.readouterr().out
