"""Samples over steps, cut out of their sheets."""

import json

from PIL import Image
from support.run_folder import add_samples, make_run

from lun.report import sample_tiles
from lun.report.sample_tiles import TileCache, sample_strip


def test_every_step_has_raw_and_averaged_pictures_for_each_prompt(tmp_path):
    strip = sample_strip(make_run(tmp_path / "run"), TileCache())
    assert [prompt.text for prompt in strip.prompts] == ["a fox", "a frog"] and strip.steps == [0, 50, 100]
    assert strip.weights == ["raw", "ema"] and strip.left_out == []
    urls = {strip.tiles[step][weights][0] for step in strip.steps for weights in strip.weights}
    assert len(urls) == 6 and all(url is not None and url.startswith("data:image/png;base64,") for url in urls)


def test_the_room_of_a_page_goes_to_the_ends_first_and_the_rest_is_told(tmp_path):
    run = make_run(tmp_path / "run", samples=False)
    for step in range(0, 90, 10):
        add_samples(run, step, "raw")
    one = sample_strip(run, TileCache())
    room = 3 * sum(len(url or "") for url in one.tiles[0]["raw"]) + 20
    strip = sample_strip(run, TileCache(), room)
    assert strip.steps == [0, 40, 80] and strip.left_out == ["samples of 6 of 9 steps"]


def test_a_page_that_is_renewed_cuts_out_what_is_new_alone(tmp_path, monkeypatch):
    run, cache = make_run(tmp_path / "run"), TileCache()
    sample_strip(run, cache)
    read: list[str] = []
    keep = sample_tiles.SampleRecord._sheet
    monkeypatch.setattr(
        sample_tiles.SampleRecord, "_sheet", lambda self, file: (read.append(file), keep(self, file))[1]
    )
    add_samples(run, 150, "raw")
    assert sample_strip(run, cache).steps == [0, 50, 100, 150]
    assert read == ["raw-150.png"]


def test_half_a_picture_and_one_that_is_gone_are_told(tmp_path):
    run = make_run(tmp_path / "run")
    sheet = run / "images/samples/raw-50.png"
    sheet.write_bytes(sheet.read_bytes()[:40])
    (run / "images/samples/raw-0.png").unlink()
    strip = sample_strip(run, TileCache())
    assert strip.tiles[50]["raw"] == [None, None] and strip.tiles[0]["raw"] == [None, None]
    assert strip.left_out == ["1 sheet of samples that are not there any more", "4 samples that cannot be read"]


def test_nothing_outside_the_run_is_shown(tmp_path):
    run = make_run(tmp_path / "run", samples=False)
    Image.new("RGB", (8, 8), "red").save(tmp_path / "secret.png")
    (run / "images/samples/link.png").symlink_to(tmp_path / "secret.png")
    rows = [
        {"step": 1, "prompt": file, "seed": 1, "weights": "raw", "file": file, "box": [0, 0, 8, 8], "scale": 1}
        for file in ("../../../secret.png", str(tmp_path / "secret.png"), "link.png")
    ]
    (run / "images/samples/samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert sample_strip(run, TileCache()).steps == []
