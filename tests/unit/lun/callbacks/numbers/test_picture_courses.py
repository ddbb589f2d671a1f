"""Losses of single pictures: compared within their noise level, with a course of bounded length."""

import math
from itertools import pairwise

import pytest
import torch

from lun.callbacks.numbers.picture_courses import KNOWN, TRACE, Levels, PictureCourses


def test_a_loss_is_compared_with_others_at_its_level_and_told_as_at_the_mean_of_all() -> None:
    levels = Levels()
    numbers = torch.randn(2000, generator=torch.Generator().manual_seed(0)).tolist()
    for number in numbers:
        levels.add(-5.0, math.exp(0.5 * number))
        levels.add(5.0, 100 * math.exp(0.1 * number))
    noisy, clean = levels.residual(-5.0, math.e), levels.residual(5.0, 100 * math.e)
    assert noisy is not None and clean is not None
    assert noisy.deviations == pytest.approx(2, rel=0.2) and clean.deviations == pytest.approx(10, rel=0.2)
    assert noisy.loss == pytest.approx(10 * math.e, rel=0.1) == clean.loss


def test_nothing_is_compared_with_a_level_of_which_little_is_known() -> None:
    levels = Levels()
    for _ in range(KNOWN - 1):
        levels.add(0.0, 1.0)
    assert levels.residual(0.1, 2.0) is None
    levels.add(0.2, 1.0)
    assert levels.residual(0.1, 2.0) is not None and levels.residual(0.6, 2.0) is None


@pytest.mark.parametrize("log_snr", [-1e9, -12.0, 12.0, 1e9])
def test_levels_beyond_the_ends_are_those_at_the_ends(log_snr: float) -> None:
    levels = Levels()
    for _ in range(KNOWN):
        levels.add(log_snr, 1.0)
    assert levels.residual(log_snr, 1.0) is not None


def test_pictures_come_with_the_most_excess_first_and_few_looks_say_little() -> None:
    table = PictureCourses()
    for step in range(9):
        table.add(7, step, 2.0, 2.0)
        table.add(3, step, 0.5, -1.0)
    table.add(5, 9, 3.0, 3.0)
    table.add(8, 9, 1.0, None)
    found = {one.example: one for one in table.shown(9)}
    assert [*found] == [7, 5, 8, 3] and found[5].excess == 1.5 and found[8].excess == 0.0
    assert found[7].excess == pytest.approx(2 * (w := (1 - 0.9**9) / 0.1) / (w + 1)) and found[7].n == 9
    assert table.usual_excess() == pytest.approx(sum(one.excess for one in found.values()) / 4)
    assert [one.example for one in table.shown(2)] == [7, 3]
    assert found[7].loss == pytest.approx(2.0) and found[7].first == 2.0


@pytest.mark.parametrize("looks", [1, TRACE, TRACE + 1, 10 * TRACE])
def test_a_course_has_at_most_so_many_points_evenly_spread(looks: int) -> None:
    table = PictureCourses()
    for step in range(looks):
        table.add(0, step, float(step + 1), 0.0, lasting=0.0)
    (one,) = table.shown(2)
    steps = [step for step, _ in one.trace]
    assert len(steps) <= TRACE and steps[0] == 0 and looks - steps[-1] <= 2 * looks / TRACE + 1
    assert len({later - earlier for earlier, later in pairwise(steps)}) <= 1
    assert one.trace[-1][1] == steps[-1] + 1 and one.loss == looks


def test_a_table_goes_on_from_a_checkpoint_as_it_was() -> None:
    table, again = PictureCourses(), PictureCourses()
    for example in range(100):
        table.add(example, 1, 1.0 + example, 0.1 * example)
    again.load_state_dict(table.state_dict())
    for one in (table, again):
        for example in (3, 200):
            one.add(example, 2, 5.0, 1.0)
    assert table.shown(200) == again.shown(200) and len(again) == 101
