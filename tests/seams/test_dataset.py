"""A dataset without files, as somebody writes it in `lun/local`: everything that a folder gets, it gets."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from support.runs import TINY, newest_run


@pytest.fixture
def colours(drawer: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))
    drawer("colours")


def config(folder: Path, train: str, more: str = "") -> Path:
    path = folder / "data.yaml"
    path.write_text(f"data: {{params: {{train: {{target: lun.local.colours.{train}}}{more}}}}}\n")
    return path


def train(tmp_path: Path, name: str, *settings: str) -> Path:
    from lun.trainer import run

    recipe = f"{{target: lun.local.colours.{name}, params: {{size: 8}}}}"
    line = ["--base", str(TINY), "--logdir", str(tmp_path / "logs"), "-t", f"data.params.train={recipe}"]
    line += ["data.params.validation=null", "lightning.trainer.max_steps=2", *settings]
    assert run(line) == 0
    return newest_run(tmp_path / "logs")


@pytest.mark.usefixtures("colours")
def test_the_least_that_is_a_dataset_trains(tmp_path: Path) -> None:
    assert json.loads((train(tmp_path, "Colours") / "run.json").read_text())["status"] == "done"


@pytest.mark.usefixtures("colours")
def test_it_is_read_in_buckets_and_from_a_cache_and_its_tags_and_overlap_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lun")
    validation = "data.params.validation={target: lun.local.colours.All, params: {size: 8}}"
    buckets = "data.params.buckets={resolutions: [8], step: 4}"
    run = train(tmp_path, "All", validation, buckets, "data.params.cache=true")
    assert "warning[DAT10]: 8 of the 8 images for validation are trained on" in caplog.text
    assert "10 examples an epoch; 25.0% of the pixels cropped away, at most 50% (blue)" in caplog.text
    assert "16 moments in" in caplog.text  # both ways round
    tags = json.loads((run / "data" / "tag_frequency.json").read_text())["All"]
    assert tags["dull"] == 7 and tags["white"] == 1


@pytest.mark.usefixtures("colours")
@pytest.mark.parametrize(("name", "tags"), [("Colours", 0), ("All", 10)])
def test_it_is_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, tags: int) -> None:
    from lun.inspect.command import run

    out = tmp_path / "out"
    code = run(["--base", str(config(tmp_path, name)), "-o", str(out)])
    assert code == 0, capsys.readouterr().err
    report = json.loads((out / "report.json").read_text())
    assert (report["total"], report["usable"], report["captions"]) == (8, 8, 8)
    assert report["layout"] == f"lun.local.colours.{name}, 8 examples"
    assert report["different_tags"] == tags
    assert report["median_size"] == ([8, 8] if name == "Colours" else [12, 8])
    assert (out / "report.html").read_text().count("<figure") >= 8 and (out / "contact.png").stat().st_size


@pytest.mark.usefixtures("colours")
def test_a_folder_is_not_taken_for_a_dataset_that_reads_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lun.inspect.command import run

    assert run([str(tmp_path), "--base", str(config(tmp_path, "Colours")), "-o", str(tmp_path / "out")]) == 2
    assert "lun.local.colours.Colours takes no data_root" in capsys.readouterr().err
