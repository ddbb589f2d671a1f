"""The page of every key is what the signatures say today."""

import runpy
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> dict[str, Any]:
    return runpy.run_path(str(Path(request.config.rootpath) / "scripts" / "make_reference.py"))


def test_the_page_is_up_to_date(script: dict[str, Any]) -> None:
    stored = script["PAGE"].read_text("utf-8")
    assert stored == script["page"](), "PYTHONPATH=. python scripts/make_reference.py writes it anew"


def test_what_a_docstring_says_of_a_key_stands_beside_it(script: dict[str, Any]) -> None:
    found = dict(script["entries"]("A thing.\n\nsize, side  in pixels;\n            more\nother  text\n\nAnd so on."))
    assert found == {"size": "in pixels; more", "side": "in pixels; more", "other": "text"}
