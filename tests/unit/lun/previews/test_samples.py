"""What was sampled, over crashes and resumes."""

import numpy as np

from lun.previews.grid import grid, layout, write
from lun.previews.samples import SampleRecord

PROMPTS, SEEDS = ["fox", "frog", "car"], [42, 43, 44]


def pictures(step: int) -> np.ndarray:
    return np.random.default_rng(step).integers(0, 256, (3, 8, 6, 3), dtype=np.uint8)


def save(record: SampleRecord, step: int, weights: str = "raw") -> None:
    file = f"{weights}-{step}.png"
    write(grid(pictures(step), 2, PROMPTS, 3), record.folder / file)
    record.add(step, PROMPTS, SEEDS, weights, file, layout(pictures(step), 2, True, 3))


def test_a_sample_is_cut_out_of_its_sheet_pixel_by_pixel(tmp_path):
    record = SampleRecord(tmp_path)
    save(record, 5)
    tiles = record.tiles(record.read(), 5, "raw", [("car", 44), ("fox", 42)])
    assert np.array_equal(np.asarray(tiles[0]), pictures(5)[2])
    assert np.array_equal(np.asarray(tiles[1]), pictures(5)[0])


def test_raw_and_averaged_samples_of_a_step_are_kept_apart(tmp_path):
    record = SampleRecord(tmp_path)
    save(record, 5, "raw")
    save(record, 5, "ema")
    assert [s.weights for s in record.read()] == ["raw"] * 3 + ["ema"] * 3


def test_a_resume_from_an_earlier_step_forgets_what_came_later(tmp_path):
    record = SampleRecord(tmp_path)
    for step in (0, 10, 20, 30, 15):
        save(record, step)
    assert sorted({s.step for s in record.read()}) == [0, 10, 15]


def test_a_line_torn_by_a_crash_spoils_no_other(tmp_path):
    record = SampleRecord(tmp_path)
    save(record, 0)
    record.path.write_bytes(record.path.read_bytes()[:-9])
    save(record, 10)
    assert [(s.step, s.prompt) for s in record.read()] == [(0, "fox"), (0, "frog")] + [(10, p) for p in PROMPTS]


def test_a_sheet_that_was_deleted_or_a_new_prompt_leaves_an_empty_place(tmp_path):
    record = SampleRecord(tmp_path)
    save(record, 0)
    assert record.tiles(record.read(), 0, "raw", [("new", 42)]) == [None]
    (tmp_path / "raw-0.png").unlink()
    assert record.tiles(record.read(), 0, "raw", [("fox", 42)]) == [None]


def test_without_a_file_nothing_is_known(tmp_path):
    assert SampleRecord(tmp_path).read() == []
