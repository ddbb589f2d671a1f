"""The page on other trainers is what their tables say today."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from lun.other_trainers.programs import TABLES


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> dict[str, Any]:
    return runpy.run_path(str(Path(request.config.rootpath) / "scripts" / "make_migration.py"))


def test_the_page_is_up_to_date(script: dict[str, Any]) -> None:
    stored = script["PAGE"].read_text("utf-8")
    assert stored == script["page"](), "PYTHONPATH=. python scripts/make_migration.py writes it anew"


def test_every_setting_of_every_program_stands_on_it(script: dict[str, Any]) -> None:
    page = script["page"]()
    assert [name for table in TABLES for name in table.rows if f"`{table.shown(name)}`" not in page] == []
    assert [table.program for table in TABLES if f"## {table.program}\n" not in page] == []


def test_what_has_no_equal_or_differs_says_why() -> None:
    rows = [(name, row) for table in TABLES for name, row in table.rows.items()]
    assert [name for name, row in rows if row.kind != "same" and not row.say] == []
    assert [name for name, row in rows if row.kind in ("none", "idle") and (row.words or row.base)] == []
