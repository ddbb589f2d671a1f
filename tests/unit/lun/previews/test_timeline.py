"""The strip of samples over time."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lun.previews.grid import font
from lun.previews.timeline import Row, evenly, heads, timeline

RED = Image.new("RGB", (32, 32), (200, 30, 30))
BLUE = Image.new("RGB", (32, 32), (30, 30, 200))
FOX, FROG = "fox, yellow background", "frog, orange background"


def count(sheet: Image.Image, colour: tuple[int, int, int]) -> int:
    return int((np.asarray(sheet) == colour).all(-1).sum())


def test_every_tile_is_shown_enlarged_by_whole_pixels():
    sheet = timeline([Row("step 0", [RED, BLUE]), Row("step 9", [RED, RED])], [FOX, FROG])
    assert count(sheet, (200, 30, 30)) == 3 * 64 * 64
    assert count(sheet, (30, 30, 200)) == 64 * 64


def test_a_missing_tile_stays_white():
    rows = [Row("step 0", [RED, None])]
    full = timeline([Row("step 0", [RED, BLUE])], [FOX, FROG])
    assert timeline(rows, [FOX, FROG]).size == full.size
    assert count(timeline(rows, [FOX, FROG]), (30, 30, 200)) == 0


def test_rows_that_belong_together_stand_closer():
    apart = timeline([Row("step 9", [RED]), Row("step 9 EMA", [RED])], [FOX])
    together = timeline([Row("step 9", [RED]), Row("step 9 EMA", [RED], apart=False)], [FOX])
    assert together.height < apart.height


def test_a_footer_adds_a_line_below():
    assert timeline([Row("a", [RED])], [FOX], "footer").height > timeline([Row("a", [RED])], [FOX]).height


def test_column_heads_break_at_the_comma_and_leave_out_a_word_that_all_share():
    assert heads([FOX, FROG], font(12), 70) == [["fox", "yellow"], ["frog", "orange"]]


def test_the_last_word_of_a_caption_is_never_left_out():
    assert heads(["fox, red", "frog, red"], font(12), 70) == [["fox", "red"], ["frog", "red"]]


def test_heads_without_a_comma_are_wrapped():
    assert heads(["a red fox in snow"], font(12), 60)[0][0].startswith("a red")


def test_a_strip_without_rows_or_tiles_can_be_drawn():
    assert timeline([], []).width > 0
    assert timeline([Row("step 0", [None])], [FOX]).height > 64


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=60, unique=True), st.integers(2, 8))
def test_chosen_steps_are_few_and_hold_the_first_and_the_last(steps, most):
    steps = sorted(steps)
    chosen = evenly(steps, most)
    assert chosen == sorted(set(chosen)) and set(chosen) <= set(steps)
    assert len(chosen) == min(most, len(steps))
    assert (chosen[0], chosen[-1]) == (steps[0], steps[-1])


def test_steps_are_chosen_at_even_distances():
    assert evenly(range(9), 5) == [0, 2, 4, 6, 8]
