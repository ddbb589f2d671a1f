"""The progress line at every width."""

from itertools import product

import pytest

from lun.callbacks.line import Standing, bar_line, duration, progress_line, summary

FAST = Standing(218, 900, 0.1832, 1 / 7.6, 32.0, 0.012)
SLOW = Standing(118_000, 250_000, 12.345, 12.64, 4.0, 0.5, "18.3/24.0 GiB")
NEW = Standing(0, 900)
ENDLESS = Standing(218, None, 0.1832, 1 / 7.6, 32.0, 0.012)
DOING = ("", "sampling 12 s", "validating 3/20 4 s", "saving 310 s", "waiting for data 12 s", "waiting for ranks 9 s")


def test_the_line_of_a_log_says_all_that_is_known():
    assert progress_line(FAST) == "218/900  loss 0.183  7.6 it/s  243 img/s  wait 1%  eta 1:30"
    assert progress_line(Standing(3, None, None, 2.5, 4.0, None, "18.3/24.0 GiB")) == (
        "3  2.5 s/it  1.6 img/s  mem 18.3/24.0 GiB"
    )


def test_a_terminal_of_each_usual_width_reads_so():
    assert bar_line(FAST, 59) == "[##.........]  24%  218/900  loss 0.183  7.6 it/s  eta 1:30"
    assert bar_line(FAST, 79) == "[##.........]  24%  218/900  loss 0.183  7.6 it/s  243 img/s  wait 1%  eta 1:30"
    assert bar_line(FAST, 159) == (
        f"[#########{31 * '.'}]  24%  218/900  loss 0.183  7.6 it/s  243 img/s  wait 1%  eta 1:30"
    )


@pytest.mark.parametrize("columns", [59, 79, 159])
@pytest.mark.parametrize("doing", DOING)
@pytest.mark.parametrize("standing", [FAST, SLOW], ids=["fast", "slow"])
def test_loss_speed_time_left_and_what_goes_on_fit_every_terminal(columns, doing, standing):
    line = bar_line(standing, columns, doing)
    assert len(line) <= columns
    for part in (f"loss {standing.loss:.3f}", "7.6 it/s" if standing is FAST else "12.6 s/it", "eta ", doing):
        assert part in line, line


def test_no_width_breaks_the_line():
    for standing, doing, columns in product((FAST, SLOW, NEW, ENDLESS), DOING, range(1, 200)):
        line = bar_line(standing, columns, doing)
        assert len(line) <= columns and "\n" not in line


def test_the_bar_is_no_more_than_half_of_a_narrow_terminal():
    for columns in (59, 79):
        assert bar_line(FAST, columns).index("]") < columns / 2


def test_a_run_without_an_end_has_no_bar():
    assert bar_line(ENDLESS, 79) == "218  loss 0.183  7.6 it/s  243 img/s  wait 1%"


def test_the_line_that_stays_leaves_out_what_is_not_known():
    assert summary(225, 0.171, 0.204) == "step   225  loss 0.171  val 0.204"
    assert summary(0, None, None) == "step     0"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (89.4, "1:29"), (7389, "2:03:09"), (3 * 86400 + 14400, "3 d 4 h")]
)
def test_durations_are_written_as_a_clock_shows_them(seconds, text):
    assert duration(seconds) == text
