"""What a run tells of its weights."""

import base64
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lun.checkpoints.run_metadata import LARGEST_THUMBNAIL, run_metadata, thumbnail
from lun.previews.grid import grid, layout
from lun.previews.samples import SampleRecord

COLOURS = {0: "black", 2: "red", 4: "green"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with samples of three steps, raw and averaged; averaged ones are half as bright."""
    root = tmp_path / "2026_pony"
    samples = root / "images" / "samples"
    samples.mkdir(parents=True)
    (root / "configs").mkdir()
    (root / "configs" / "resolved.yaml").write_text("seed: 3\n")
    (root / "run.json").write_text(json.dumps({"seed": 3, "data": {"n": 120}}))
    for step, colour in COLOURS.items():
        for weights in ("raw", "ema"):
            add(samples, step, weights, Image.new("RGB", (32, 32), colour if weights == "ema" else "white"))
    return root


def add(samples: Path, step: int, weights: str, picture: Image.Image) -> None:
    pixels = np.asarray(picture)[None]
    plan = layout(pixels, columns=1)
    grid(pixels, 1).save(samples / f"{weights}-{step}.png")
    SampleRecord(samples).add(step, ["a cat"], [42], weights, f"{weights}-{step}.png", plan)


def opened(url: str) -> Image.Image:
    head, _, content = url.partition(",")
    assert head == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB")


def test_name_config_seed_and_step_are_told(run: Path) -> None:
    told = run_metadata(run, 4, "ema")
    told.pop("modelspec.thumbnail")
    assert told == {
        "lun.run": "2026_pony",
        "lun.weights": "ema",
        "lun.config_sha256": hashlib.sha256(b"seed: 3\n").hexdigest(),
        "ss_output_name": "2026_pony",
        "ss_steps": "4",
        "ss_seed": "3",
        "ss_num_train_images": "120",
    }


def test_a_run_that_stored_nothing_tells_its_name(tmp_path: Path) -> None:
    assert run_metadata(tmp_path / "old", None, "raw") == {
        "lun.run": "old",
        "lun.weights": "raw",
        "ss_output_name": "old",
    }


@pytest.mark.parametrize("place", ["file", "record"])
def test_tags_are_told_where_the_run_counted_them(run: Path, place: str) -> None:
    tags = {"img": {"pony": 3, "été": 1}}
    if place == "file":
        (run / "data").mkdir()
        (run / "data" / "tag_frequency.json").write_text(json.dumps(tags))
    else:
        (run / "run.json").write_text(json.dumps({"data": {"tag_frequency": tags}}))
    assert json.loads(run_metadata(run, 4, "ema")["ss_tag_frequency"]) == tags


@pytest.mark.parametrize(("step", "expected"), [(4, "green"), (3, "red"), (None, "green"), (0, "black")])
def test_the_picture_is_the_newest_of_these_weights_up_to_the_step(run: Path, step: int | None, expected: str) -> None:
    url = thumbnail(run / "images" / "samples", step, "ema")
    assert url is not None
    wanted = np.array(Image.new("RGB", (1, 1), expected))[0, 0].astype(int)
    assert np.abs(np.array(opened(url))[8, 8].astype(int) - wanted).max() < 16


def test_the_other_weights_serve_where_these_have_no_picture(run: Path) -> None:
    (run / "images" / "samples" / "ema-4.png").unlink()
    url = thumbnail(run / "images" / "samples", 4, "ema")
    assert url is not None
    assert opened(url).getpixel((8, 8)) == (255, 255, 255)


def test_a_large_and_noisy_picture_is_made_small_enough(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (512, 512, 3), dtype=np.uint8)
    add(tmp_path, 0, "raw", Image.fromarray(noise))
    url = thumbnail(tmp_path, None, "raw")
    assert url is not None
    assert len(url) <= LARGEST_THUMBNAIL
    assert opened(url).size == (256, 256)


def test_no_samples_no_picture(tmp_path: Path) -> None:
    assert thumbnail(tmp_path, 4, "ema") is None
