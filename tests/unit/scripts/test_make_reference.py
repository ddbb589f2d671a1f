"""The page of every key is what the signatures say today."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from lun.config.reference.docstrings import entries

CLASS = re.compile(r"\b(?:ldm|lun)(?:\.[a-z_0-9]+)+\.[A-Z]\w+")
NOT_NAMED_IN_A_CONFIG = {
    "ldm.ema.model_weights.Sharded",  # what a strategy of one's own derives from
    "lun.local.NAME",  # a command of one's own
    "lun.local.colours.Colours",  # the example of a dataset of one's own
    "lun.local.mine.Width",  # the example of an annotator of one's own
}


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> dict[str, Any]:
    return runpy.run_path(str(Path(request.config.rootpath) / "scripts" / "make_reference.py"))


def test_the_page_is_up_to_date(script: dict[str, Any]) -> None:
    stored = script["PAGE"].read_text("utf-8")
    assert stored == script["page"](), "PYTHONPATH=. python scripts/make_reference.py writes it anew"


def test_what_a_docstring_says_of_a_key_stands_beside_it() -> None:
    found = dict(entries("A thing.\n\nsize, side  in pixels;\n            more\nother  text\n\nAnd so on."))
    assert found == {"size": "in pixels; more", "side": "in pixels; more", "other": "text"}


def test_no_cell_shows_how_python_writes_a_type(script: dict[str, Any]) -> None:
    text = script["PAGE"].read_text("utf-8")
    assert [word for word in ("ForwardRef", "typing.", "<class", "Callable[", "mappingproxy") if word in text] == []


WALKS = re.compile(r"^## Three walks$.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
"""What happens within the program, of which a config names nothing."""


def test_every_class_that_a_config_or_a_page_names_has_its_keys_there(script: dict[str, Any], repo_root: Path) -> None:
    files = [*repo_root.glob("configs/**/*.yaml"), *repo_root.glob("lun/**/*.md"), *repo_root.glob("docs/*.md")]
    texts = [WALKS.sub("", file.read_text("utf-8")) for file in files]
    named = {found for text in texts for found in CLASS.findall(text)} - NOT_NAMED_IN_A_CONFIG
    known = {path for targets in script["TARGETS"].values() for path in targets}
    assert len(named) > 25 and named - known == set()


def test_every_part_that_may_be_named_has_its_keys_there(script: dict[str, Any], repo_root: Path) -> None:
    """By the stored schema, which knows all of them from the sources."""
    parts = json.loads((repo_root / "configs" / "schema.json").read_text("utf-8"))["$defs"]
    known = {path for targets in script["TARGETS"].values() for path in targets}
    ours = {path for path in parts if path.startswith(("ldm.", "lun."))}
    assert len(ours) > 90 and ours - known - {"ldm.ema.lit_ema.LitEma"} == set()


def test_every_key_says_what_it_means(script: dict[str, Any]) -> None:
    rows = [line for line in script["PAGE"].read_text("utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) > 475 and [row for row in rows if re.search(r"\|\s*\|$", row)] == []
