"""Every module has a test file: its mirror, or the one that `support.covered_by` names."""

from pathlib import Path

import pytest
from support.covered_by import COVERED_BY

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    path.relative_to(ROOT)
    for package in ("ldm", "lun")
    for path in (ROOT / package).rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py") and not path.is_relative_to(ROOT / "lun" / "local")
)


def dotted(module: Path) -> str:
    return ".".join(module.with_suffix("").parts)


def mirror(module: Path) -> Path:
    """The test file at the module's own place in the tree."""
    return ROOT / "tests" / "unit" / module.with_name(f"test_{module.name}")


def test_a_module_has_its_mirrored_test_or_says_which_one_covers_it() -> None:
    assert [
        dotted(module) for module in MODULES if not mirror(module).exists() and dotted(module) not in COVERED_BY
    ] == []


def test_no_entry_is_left_of_a_module_that_is_gone_or_has_a_mirrored_test() -> None:
    waiting = {dotted(module) for module in MODULES if not mirror(module).exists()}
    assert sorted(COVERED_BY.keys() - waiting) == []


@pytest.mark.parametrize("file", sorted(set(COVERED_BY.values())))
def test_a_covering_test_exists_and_tests_the_program(file: str) -> None:
    text = (ROOT / file).read_text("utf-8")
    assert "def test_" in text
    assert "ldm" in text or "lun" in text
