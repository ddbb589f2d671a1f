"""Writes docs/errors.md, every id that a message can carry, from the table docs/errors.toml."""

import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

from ldm.errors import Fault
from lun.console.fault_report import exit_code

PAGE = Path(__file__).resolve().parents[1] / "docs" / "errors.md"
TABLE = PAGE.with_suffix(".toml")
HEAD = """\
# What the ids of messages mean

Made by `scripts/make_errors.py` from `errors.toml`; a test holds it complete and up to date. A message names the file,
line or flag (where), the facts of this very run (why) and something to paste (fix); here is what all messages of one id
have in common. Scripts can go by the exit code. Several faults at once are printed together, and the first decides the
code. 0 is success, 130 Ctrl-C, and 143 SIGTERM, SIGHUP or a time limit, both after saving
([stops and resumes](safety.md)). `LUN_DEBUG=1` adds the traceback to any of them.
"""


class Meaning(NamedTuple):
    """What all messages of one id have in common; `ends` is false for what is said while the program goes on."""

    what: str
    why: str
    fix: str
    ends: bool = True


def chapters() -> dict[str, dict[str, Meaning]]:
    """The table: ids below the title of their chapter."""
    stored = tomllib.loads(TABLE.read_text("utf-8"))
    return {title: {id: Meaning(**given) for id, given in ids.items()} for title, ids in stored.items()}


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for title, meanings in chapters().items():
        parts.append(f"## {title}\n")
        parts += [entry(id, meaning) for id, meaning in meanings.items()]
    return "\n".join(parts)


def entry(id: str, meaning: Meaning) -> str:
    """One id under a heading of its own, which a link or a search finds."""
    code = str(exit_code(Fault(id, meaning.what))) if meaning.ends else "none, the program goes on"
    lines = (f"### {id}\n", f"{meaning.what} {meaning.why}\n", f"- Fix: {meaning.fix}", f"- Exit code: {code}", "")
    return "\n".join(lines)


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
