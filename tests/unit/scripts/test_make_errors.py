"""The page of every id is whole: all that the program can say, nothing else, and each provoked by a test."""

import ast
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ID = r"(?:[A-Z]{3}\d\d|BUG)"
NAMED = re.compile(rf'"({ID})"|(?:error|warning|note)\[({ID})\]')
RAISED = re.compile(rf'raise Fault\(\s*"({ID})"')


@pytest.fixture(scope="module")
def script(request: pytest.FixtureRequest) -> dict[str, Any]:
    return runpy.run_path(str(Path(request.config.rootpath) / "scripts" / "make_errors.py"))


@pytest.fixture(scope="module")
def meanings(script: dict[str, Any]) -> dict[str, Any]:
    return {id: meaning for group in script["chapters"]().values() for id, meaning in group.items()}


@pytest.fixture(scope="module")
def sources(repo_root: Path) -> str:
    files = [file for folder in ("ldm", "lun") for file in (repo_root / folder).rglob("*.py")]
    scripts = [*repo_root.glob("scripts/*.sh"), *repo_root.glob("scripts/*.sbatch")]
    return "\n".join(file.read_text("utf-8") for file in (*files, *scripts))


def test_the_page_is_up_to_date(script: dict[str, Any]) -> None:
    stored = script["PAGE"].read_text("utf-8")
    assert stored == script["page"](), "PYTHONPATH=. python scripts/make_errors.py writes it anew"


def test_each_id_that_the_program_can_say_is_explained_and_no_other(meanings: dict[str, Any], sources: str) -> None:
    said = {id for found in NAMED.findall(sources) for id in found if id}
    assert sorted(said ^ meanings.keys()) == []


def test_what_is_said_to_go_on_is_never_raised_and_the_rest_has_an_exit_code(
    script: dict[str, Any], meanings: dict[str, Any], sources: str
) -> None:
    goes_on = {id for id, meaning in meanings.items() if not meaning.ends}
    assert goes_on & set(RAISED.findall(sources)) == set()
    codes = {id: script["exit_code"](script["Fault"](id, "x")) for id in meanings.keys() - goes_on}
    assert [id for id, code in codes.items() if code == 70] == ["BUG"]


def test_each_id_that_a_page_names_is_explained(meanings: dict[str, Any], repo_root: Path) -> None:
    letters = "|".join(sorted({id[:3] for id in meanings} - {"BUG"}))
    folders = ("docs", "configs", "lun", "ldm")
    pages = [repo_root / "README.md", *(file for name in folders for file in (repo_root / name).rglob("*.md"))]
    named = {id for file in pages for id in re.findall(rf"\b(?:{letters})\d\d\b", file.read_text("utf-8"))}
    assert sorted(named - meanings.keys()) == []


NO_FAULT_THERE = ("test_make_errors.py", "test_fault_report.py")
"""Tests of ids alone, in which nothing goes wrong."""


def test_each_id_is_expected_by_a_test(meanings: dict[str, Any], repo_root: Path) -> None:
    left = set(meanings)
    for file in (repo_root / "tests").rglob("test_*.py"):
        text = file.read_text("utf-8")
        if file.name not in NO_FAULT_THERE and any(id in text for id in left):
            left -= set(re.findall(ID, " ".join(expected(ast.parse(text)))))
    assert sorted(left) == []


def expected(tree: ast.AST) -> Iterator[str]:
    """The text within `assert`, within `pytest.raises(match=...)`, and in rows of cases."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert | ast.Tuple) or (isinstance(node, ast.keyword) and node.arg == "match"):
            parts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
            yield from (part for part in parts if isinstance(part, str))
