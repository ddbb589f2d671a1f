"""One line of the doctor's report, without anything that says who and where somebody is."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["OK", "WARN", "FAIL"]
# An absolute path of any system but a device's; what stands before it must not make it a part of a URL or a fraction.
_PATH = re.compile(r"(?<![\w.:/\\])(?!/dev/)(?:~|[A-Za-z]:)?[/\\](?:[^\s'\":;,()]*[/\\])?([^\s'\":;,()/\\]*)")
_FILE_NAME = re.compile(r"[\w.+-]+\.(?:so|py|dll|dylib|pyd)[\d.]*")


@dataclass(frozen=True)
class Finding:
    """What was looked at, how it is, and what to do about it.

    level   OK; WARN where training works but not as it could; FAIL where it will not work
    fix     a command, or what to change
    """

    level: Level
    label: str
    detail: str
    fix: str = ""

    def lines(self) -> list[str]:
        """As it is printed."""
        first = f"{'[' + self.level + ']':<7}{self.label:<12}{self.detail}"
        return [first, f"{'':<7}{'':<12}fix: {self.fix}"] if self.fix and self.level != "OK" else [first]


def pasteable(text: str, names: Iterable[str] = ()) -> str:
    """`text` with each absolute path as `(path)`, the names of libraries kept, and each of `names` as `(name)`."""
    text = _PATH.sub(lambda match: _what_is_left(match[1]), text)
    for name in sorted({name for name in names if name}, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "(name)", text)
    return text


def _what_is_left(last_part: str) -> str:
    return f"(path)/{last_part}" if _FILE_NAME.fullmatch(last_part) else "(path)"
