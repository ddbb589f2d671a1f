"""The walks of lun's README lead past what there is."""

import re
from pathlib import Path

import pytest

from ldm.admission import get_obj_from_str

PAGE = (Path(__file__).parents[3] / "lun" / "README.md").read_text("utf-8")
_, _, SECTION = PAGE.partition("## Three walks")
WALKS = re.findall(r"^\*\*(.+)\*\*\n\n((?:\d\. .*\n)+)", SECTION.partition("\n## ")[0], flags=re.MULTILINE)


def test_there_are_three_walks_of_at_most_eight_stops() -> None:
    assert len(WALKS) == 3
    assert all(1 < len(stops.splitlines()) <= 8 for _, stops in WALKS)


STOPS = [stop for _, stops in WALKS for stop in re.findall(r"`((?:ldm|lun)\.[\w.]+)`", stops)]


@pytest.mark.parametrize("stop", STOPS)
def test_each_stop_is_there(stop: str) -> None:
    assert callable(get_obj_from_str(stop))
