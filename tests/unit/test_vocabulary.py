"""The page of terms names modules that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_term_names_modules_that_exist() -> None:
    rows = [
        line for line in (ROOT / "docs" / "vocabulary.md").read_text("utf-8").splitlines() if line.startswith("| ")
    ][1:]
    places = {row: re.findall(r"`((?:ldm|lun)/[\w/.]*)`", row.split("|")[-2]) for row in rows}
    assert [row for row, named in places.items() if not named or not all((ROOT / one).exists() for one in named)] == []
