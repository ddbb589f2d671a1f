"""The page of terms names modules that exist; words that the field has a term for do not come back."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RETIRED = {
    r"told|tells?|telling": "given, logged, reported, shown; conditioned on; distinguished, recognised",
    r"learnt": "learned",
    r"(?:learn\w*|know\w*) (?:\w+ )*by[ _]heart|by_heart": "memorised",
    r"(?:in|of) (?:\w+ )?tongues?": "name, language",
}
"""Words and the terms that say it. A method `tell` of others, of files and Optuna's studies, is what they call it."""
OLD_WORDS = re.compile(rf"(?<![A-Za-z.])(?:{'|'.join(RETIRED)})(?![a-z])|\bTells[A-Z]", re.IGNORECASE)
HISTORY = "CHANGELOG.md"
TEXT = (".py", ".md", ".yaml", ".html", ".js", ".sh", ".sbatch")


def test_each_term_names_modules_that_exist() -> None:
    rows = [
        line for line in (ROOT / "docs" / "vocabulary.md").read_text("utf-8").splitlines() if line.startswith("| ")
    ][1:]
    places = {row: re.findall(r"`((?:ldm|lun)/[\w/.]*)`", row.split("|")[-2]) for row in rows}
    assert [row for row, named in places.items() if not named or not all((ROOT / one).exists() for one in named)] == []


def test_what_the_field_has_a_term_for_is_called_by_it() -> None:
    """Names, docstrings and messages of the program and its pages."""
    rooms = [ROOT / "ldm", ROOT / "lun", ROOT / "scripts", ROOT / "docs", ROOT / "configs"]
    files = [*(path for room in rooms for path in room.rglob("*")), *ROOT.glob("*.md"), ROOT / "main.py"]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in files
        if path.suffix in TEXT and path.name != HISTORY and "local" not in path.parts
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if (match := OLD_WORDS.search(line))
    ]
    assert found == []


@pytest.mark.parametrize("text", ["_told_at", "class TellsSteps:", "is told captions", "learnt", "_known_by_heart"])
def test_each_spelling_of_an_old_word_is_noticed(text: str) -> None:
    assert OLD_WORDS.search(text)


@pytest.mark.parametrize("text", ["file.tell()", "telltale", "in double", "learned", "stories"])
def test_other_words_are_free(text: str) -> None:
    assert not OLD_WORDS.search(text)
