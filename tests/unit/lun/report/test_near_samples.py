"""Samples beside the pictures of training that they are nearest to."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.run_folder import Page, make_run

from lun.report.near_samples import near_samples
from lun.report.run_page import write_page
from lun.report.sample_tiles import TileCache

ROW: dict[str, Any] = {"cosine": 0.98765, "caption": "a <b>fox</b>", "seed": 3, "picture": "", "sample": "1-0003.jpg"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    made: Path = make_run(tmp_path / "run")
    (made / "metrics" / "nearest").mkdir(parents=True)
    Image.new("RGB", (96, 96), "blue").save(made / "metrics" / "nearest" / "1-0003.jpg")
    Image.new("RGB", (400, 200), "red").save(tmp_path / "fox.png")
    Image.new("RGB", (8, 8), "red").save(tmp_path / "secret.jpg")
    return made


def tell(run: Path, *rows: object) -> None:
    (run / "metrics" / "samples.json").write_text(json.dumps({"step": 1, "numbers": {}, "nearest": rows}))


def test_a_sample_and_its_nearest_picture_stand_side_by_side_on_the_page(run: Path) -> None:
    tell(run, ROW | {"picture": str(run.parent / "fox.png")}, ROW | {"picture": "gone.png", "sample": ""})
    page = Page(write_page(run, TileCache(), writing=True).read_text("utf-8"))
    shown = [image["alt"] for image in page.attributes("img") if str(image["src"]).startswith("data:image/jpeg")]
    assert shown == ["sample of a <b>fox</b>", "fox.png"] and page.unbalanced == []
    assert "0.988 with fox.png" in page.text and "0.988 with gone.png" in page.text


def test_what_is_no_row_is_left_out_and_no_file_elsewhere_is_shown(run: Path) -> None:
    broken = [3, {}, ROW | {"cosine": "x"}, ROW | {"cosine": float("nan")}, ROW | {"picture": None}]
    tell(run, *broken, ROW | {"sample": "../../../secret.jpg"})
    (found,) = near_samples(run)
    assert found.kept == Path("metrics/nearest/secret.jpg")
    for text in ("[]", "{", '{"nearest": 3}'):
        (run / "metrics" / "samples.json").write_text(text)
        assert near_samples(run) == []
