"""Which rows the strip of a run has."""

import numpy as np
import pytest
from PIL import Image

from lun.previews import strip
from lun.previews.grid import grid, layout, write
from lun.previews.samples import SampleRecord

PROMPTS, SEEDS = ["fox, red background", "frog, blue background"], [42, 43]


def save(record, step, weights, shade):
    images = np.full((2, 32, 32, 3), shade, dtype=np.uint8)
    file = f"{weights}-{step}.png"
    write(grid(images, 2, PROMPTS), record.folder / file)
    record.add(step, PROMPTS, SEEDS, weights, file, layout(images, 2, True))


@pytest.fixture
def labels(monkeypatch):
    """The labels of the rows of the strip that was drawn last."""
    drawn = []

    def spy(rows, captions, footer, tile):
        drawn[:] = [row.label for row in rows]
        return Image.new("RGB", (4, 4))

    monkeypatch.setattr(strip, "timeline", spy)
    return drawn


def test_raw_and_averaged_rows_alternate_and_the_real_picture_is_last(tmp_path, labels):
    record = SampleRecord(tmp_path)
    for step in (0, 10):
        save(record, step, "raw", step)
        save(record, step, "ema", step + 1)
    strip.draw_strip(record, PROMPTS, SEEDS, {PROMPTS[0]: Image.new("RGB", (32, 32))}, "")
    assert labels == ["step 0", "step 0 EMA", "step 10", "step 10 EMA", "real picture"]


def test_averaged_weights_that_draw_the_same_pictures_get_no_row(tmp_path, labels):
    record = SampleRecord(tmp_path)
    save(record, 0, "raw", 7)
    save(record, 0, "ema", 7)
    strip.draw_strip(record, PROMPTS, SEEDS, {}, "")
    assert labels == ["step 0"]


def test_at_most_five_steps_are_shown(tmp_path, labels):
    record = SampleRecord(tmp_path)
    for step in range(0, 90, 10):
        save(record, step, "raw", step)
    strip.draw_strip(record, PROMPTS, SEEDS, {}, "")
    assert labels == ["step 0", "step 20", "step 40", "step 60", "step 80"]


def test_the_strip_is_written_beside_the_sheets(tmp_path):
    record = SampleRecord(tmp_path)
    save(record, 0, "raw", 7)
    strip.draw_strip(record, PROMPTS, SEEDS, {}, "footer")
    with Image.open(tmp_path / "timeline.png") as drawn:
        assert drawn.width > 2 * 64


def test_a_strip_with_too_many_prompts_says_how_many_it_shows(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(strip, "timeline", lambda *told: drawn.append(told) or Image.new("RGB", (4, 4)))
    for count in (12, 13):
        strip.draw_strip(SampleRecord(tmp_path), [str(n) for n in range(count)], list(range(count)), {}, "step 0")
    assert [len(captions) for _, captions, *_ in drawn] == [12, 12]
    assert [footer for _, _, footer, _ in drawn] == ["step 0", "the first 12 of 13 prompts; step 0"]
