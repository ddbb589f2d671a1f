"""Prompts with settings of their own: a YAML list, or a line each with kohya's options."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ldm.errors import Fault
from lun.config.errors import did_you_mean

KOHYA: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "n": ("negative", str),
    "w": ("width", int),
    "h": ("height", int),
    "d": ("seed", int),
    "l": ("guidance", float),
    "s": ("steps", int),
}
KINDS: Mapping[str, type] = {
    "prompt": str,
    "negative": str,
    "width": int,
    "height": int,
    "seed": int,
    "guidance": float,
    "steps": int,
    "scheduler": str,
}
OPTION = re.compile(r"\s--(?=[A-Za-z]+(?:\s|$))")


@dataclass(frozen=True)
class Prompt:
    """A text to draw; `settings` are those of `KINDS` that it says itself."""

    text: str
    settings: Mapping[str, Any]


def read_prompts(path: Path) -> list[Prompt]:
    """The prompts in a file, YAML by its ending. Raises `Fault` CFG01 to CFG03 for what cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Fault("CFG01", f"prompts file not found: {path}", where="--prompts", why=str(error.strerror)) from error
    except UnicodeDecodeError as error:
        raise Fault("CFG02", f"{path} is not UTF-8 text", why=error.reason, fix="save the file as UTF-8") from error
    found = _from_yaml(text, path) if path.suffix in (".yaml", ".yml") else _from_lines(text, path)
    if not found:
        raise Fault("CFG02", f"{path} holds no prompts", where="--prompts")
    return found


def _from_lines(text: str, path: Path) -> list[Prompt]:
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [_of_line(line, f"{path}:{number}") for number, line in lines if line and not line.startswith("#")]


def _of_line(line: str, where: str) -> Prompt:
    prompt, *options = OPTION.split(" " + line)
    return Prompt(prompt.strip(), dict(_option(option, where) for option in options))


def _option(option: str, where: str) -> tuple[str, Any]:
    name, _, value = option.strip().partition(" ")
    if name not in KOHYA:
        known = f"known are --{' --'.join(KOHYA)}"
        raise Fault("CFG03", f"unknown option --{name} of a prompt", where=where, why=known)
    field, kind = KOHYA[name]
    try:
        return field, kind(value.strip())
    except ValueError as error:
        raise Fault("CFG03", f"--{name} of a prompt takes a number, not {value.strip()!r}", where=where) from error


def _from_yaml(text: str, path: Path) -> list[Prompt]:
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise Fault("CFG02", f"{path} is not valid YAML", why=str(error)) from error
    if not isinstance(content, list):
        raise Fault(
            "CFG02", f"{path} is not a list of prompts", fix="begin each with `- `, or `- prompt:` for settings"
        )
    return [_of_entry(entry, f"{path}, entry {number}") for number, entry in enumerate(content, 1)]


def _of_entry(entry: Any, where: str) -> Prompt:
    if isinstance(entry, str):
        return Prompt(entry, {})
    if not isinstance(entry, Mapping) or "prompt" not in entry:
        raise Fault("CFG03", "this is no prompt", where=where, fix="a text, or a map with `prompt:`")
    for name, value in entry.items():
        if name not in KINDS:
            why, fix = f"a prompt takes: {', '.join(KINDS)}", did_you_mean(str(name), KINDS)
            raise Fault("CFG03", f"unknown setting {name}", where=where, why=why, fix=fix)
        if not _fits(value, KINDS[name]):
            raise Fault("CFG03", f"{name}: expected {KINDS[name].__name__}, got {value!r}", where=where)
    return Prompt(entry["prompt"], {name: value for name, value in entry.items() if name != "prompt"})


def _fits(value: Any, kind: type) -> bool:
    kinds = (int, float) if kind is float else (kind,)
    return isinstance(value, kinds) and not isinstance(value, bool)
