"""Buckets, several resolutions and masks through the whole program."""

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from support.equality import differences, final_state
from support.runs import make_shapes, newest_run

Lun = Callable[..., int]
STEPS = 7
SIZES = [(8, 8)] * 4 + [(16, 8)] * 3 + [(8, 20)] * 3 + [(24, 24)] * 5
BUCKETS = ["data.params.buckets={resolutions: [8, 12], step: 4}", "data.params.train.params.mask=folder"]


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_shapes(tmp_path_factory.mktemp("shapes"), SIZES)


@pytest.mark.parametrize(
    ("cuts", "settings"),
    [
        ([2, 5], []),
        ([3], ["lightning.trainer.accumulate_grad_batches=2", "data.params.num_workers=2"]),
    ],
    ids=["twice", "accumulation and workers"],
)
def test_a_chain_of_resumes_in_buckets_equals_the_straight_run(
    lun: Lun, shapes: Path, tmp_path: Path, cuts: list[int], settings: list[str]
) -> None:
    assert lun("-t", "-n", "straight", *BUCKETS, *settings, f"lightning.trainer.max_steps={STEPS}", data=shapes) == 0
    straight = final_state(newest_run(tmp_path / "logs"))

    first, *later = [*cuts, STEPS]
    horizon = f"model.params.scheduler_config.params.total_steps={STEPS}"
    start = ("-t", "-n", "chain", *BUCKETS, *settings, horizon, f"lightning.trainer.max_steps={first}")
    assert lun(*start, data=shapes) == 0
    run = newest_run(tmp_path / "logs")
    for steps in later:
        assert lun("-r", str(run), "-t", f"lightning.trainer.max_steps={steps}", base=False) == 0
    assert differences(straight, final_state(newest_run(tmp_path / "logs"))) == []


def test_the_plan_tells_the_buckets(lun: Lun, shapes: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert lun(*BUCKETS, data=shapes) == 0
    told = "\n".join(caplog.messages)
    assert "26 examples an epoch" in told
    assert "of the pixels cropped away" in told


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("upscale: true", "30 examples an epoch"),
        ("max_crop: 0.1", "left out, since they would lose more than data.params.buckets.max_crop"),
        ("max_aspect: 1.5, min_aspect: 0.6, max_crop: 0.5", "17 examples an epoch"),
    ],
)
def test_buckets_enlarge_or_leave_out_as_asked(lun: Lun, shapes: Path, caplog, setting: str, told: str) -> None:
    assert lun(f"data.params.buckets={{resolutions: [8, 12], step: 4, {setting}}}", data=shapes) == 0
    assert told in "\n".join(caplog.messages)


def test_buckets_that_leave_nothing_are_an_error_of_the_data(lun: Lun, tmp_path: Path, capsys) -> None:
    data = make_shapes(tmp_path / "wide", [(40, 8)] * 3)
    assert lun("data.params.buckets={resolutions: [8], step: 4, max_crop: 0.1}", data=data) == 3
    assert "fix:   data.params.buckets.max_crop=null" in capsys.readouterr().err


def test_a_mask_changes_what_is_learned(lun: Lun, shapes: Path, tmp_path: Path) -> None:
    states = []
    for mask in ("folder", "null"):
        settings = [BUCKETS[0], f"data.params.train.params.mask={mask}", "lightning.trainer.max_steps=2"]
        assert lun("-t", "-n", f"mask-{mask}", *settings, data=shapes) == 0
        states.append(final_state(newest_run(tmp_path / "logs")))
    assert any("model.diffusion_model" in place for place in differences(*states))


def test_validation_and_pictures_follow_the_sizes(lun: Lun, shapes: Path, tmp_path: Path) -> None:
    validation = f"{{target: lun.data.local.Local, params: {{data_root: '{shapes}', size: 8}}}}"
    logger = "{target: lun.callbacks.ImageLogger, params: {batch_frequency: 2, log_images_kwargs: {ddim_steps: 1}}}"
    settings = [f"data.params.validation={validation}", f"lightning.callbacks.image_logger={logger}"]
    assert lun("-t", *BUCKETS, *settings, "lightning.trainer.max_steps=2", data=shapes) == 0
    drawn = {path.name.split("_r-")[0] for path in (newest_run(tmp_path / "logs") / "images").rglob("*.png")}
    assert {"inputs", "reconstruction", "samples", "samples_ema"} <= drawn


def test_a_picture_that_breaks_mid_run_is_replaced_and_listed(lun: Lun, tmp_path: Path) -> None:
    data = make_shapes(tmp_path / "own", [(8, 8)] * 6)
    assert lun("-t", "-n", "whole", "lightning.trainer.max_steps=2", data=data) == 0
    broken = data / "img" / "004.png"
    broken.write_bytes(broken.read_bytes()[:60])
    allowed = ["data.params.max_bad_fraction=0.2", "lightning.trainer.max_steps=6"]
    assert lun("-t", "-n", "broken", *allowed, data=data) == 0
    listed = (newest_run(tmp_path / "logs") / "data" / "rejected.csv").read_text().splitlines()
    assert listed[0] == "path,reason,set,at"
    assert listed[1].startswith(str(broken))
    assert lun("-t", "-n", "strict", "data.params.max_bad_fraction=0", data=data) == 3
    assert Image.open(data / "img" / "001.png").size == (8, 8)
