"""What falls while the loss held out rises is memorised; noise is not taken for it."""

import pytest

from lun.report.memorised import fallen_since, held_out_rise


def test_the_mean_of_all_pictures_held_out_is_what_rises() -> None:
    rise = held_out_rise([[(0, 4.0), (10, 1.0), (20, 2.0)], [(0, 2.0), (10, 2.0), (20, 1.5)]])
    assert rise is not None and (rise.step, rise.lowest, rise.now) == (10, 1.5, 1.75)


@pytest.mark.parametrize(
    "traces",
    [
        [],
        [[]],
        [[(0, 2.0), (10, 1.0)]],
        [[(0, 1.0), (10, 1.005)]],
        [[(0, 1.0), (10, float("nan"))], [(0, 1.0)]],
        [[(0, 1.0), (10, 1.0)], [(0, 1.0), (10, 1.0), (20, 9.0)]],
    ],
)
def test_where_it_falls_or_hardly_rises_or_one_picture_alone_was_looked_at_there_is_no_rise(traces: list) -> None:
    assert held_out_rise(traces) is None


def test_pictures_whose_loss_fell_since_are_told_the_most_first() -> None:
    traces = {
        "half": [(0, 1.0), (1, 1.0), (2, 0.5), (3, 0.5)],
        "tenth": [(0, 1.0), (1, 1.0), (2, 0.1), (3, 0.1)],
        "same": [(0, 1.0), (1, 1.0), (2, 0.95), (3, 0.95)],
        "once": [(0, 1.0), (1, 1.0), (2, 0.1)],
    }
    assert fallen_since(traces, 1) == pytest.approx({"tenth": 0.1, "half": 0.5})
