"""A command of another program, from a shell's line or a script: which script is started, and its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from string import Template
from typing import Any

from ldm.errors import Fault

_CONTINUED = re.compile(r"[ \t]*[\\^`][ \t]*\r?\n")
_ASSIGNMENT = re.compile(r"(?:export |set |\$)?([A-Za-z_]\w*) ?= ?(.*)")


@dataclass
class Command:
    """A script by its name without folders, its options, those of what launches it, and words that are neither."""

    script: str
    options: dict[str, Any]
    launcher: dict[str, Any] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def command_in(text: str, scripts: re.Pattern[str]) -> Command | None:
    """The first command that starts one of these scripts; variables that are set above it are put in.

    Raises `Fault` CFG02 where quotes are left open.
    """
    for words in _lines(text):
        names = [PurePath(word.replace("\\", "/")).name for word in words]
        place = next((at for at, name in enumerate(names) if scripts.fullmatch(name)), None)
        if place is not None:
            options, others = options_of(words[place + 1 :])
            launcher, _ = options_of(words[:place])
            return Command(names[place], options, launcher, others)
    return None


def options_of(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """(options by name, words that belong to none): True without a value, a list where there are several."""
    found: dict[str, list[str]] = {}
    others: list[str] = []
    name = ""
    for word in words:
        if word in ("&&", "||", "|", ";", "&", ">", ">>", "2>&1"):
            break
        if re.match(r"--?[A-Za-z]", word):
            name, equals, value = word.lstrip("-").partition("=")
            name = name.replace("-", "_")
            found[name] = [value] if equals else []
        elif name:
            found[name].append(word)
        else:
            others.append(word)
    return {key: True if not given else given[0] if len(given) == 1 else given for key, given in found.items()}, others


def _lines(text: str) -> Iterator[list[str]]:
    """The words of each line, with continued lines joined and variables of lines above put in."""
    values: dict[str, str] = {}
    for line in _CONTINUED.sub(" ", text).splitlines():
        line = line.strip()
        if not line or line.startswith(("#", "rem ", "REM ", "::")):
            continue
        assigned = _ASSIGNMENT.fullmatch(line)
        try:
            words = shlex.split(line.replace("\\", "/") if _is_windows(line) else line, comments=True)
            if assigned and len(shlex.split(assigned[2], comments=True)) < 2:
                values[assigned[1]] = _put_in("".join(shlex.split(assigned[2], comments=True)), values)
                continue
        except ValueError as error:
            if not assigned:
                raise Fault("CFG02", "a command cannot be read", where=line[:80], why=str(error)) from error
            continue
        yield [put for put in (_put_in(word, values) for word in words) if put not in ("$@", "")]


def _is_windows(line: str) -> bool:
    return re.search(r"\b[A-Za-z]:\\|\\\w+\.py\b", line) is not None


def _put_in(word: str, values: dict[str, str]) -> str:
    return Template(re.sub(r"%(\w+)%", r"${\1}", word)).safe_substitute(values)
