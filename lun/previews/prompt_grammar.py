"""What a prompt may say, and how: the one grammar of previews, `lun.sample` and files of prompts.

A prompt is a line, `a fox --n blurry --w 512`, in kohya's words or by any name of `KINDS` (`--guidance-rescale 0.7`);
or a map of these names in YAML, whose `prompt` is such a line again.
"""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.modules.encoders.captions import Caption, for_each
from ldm.plain import read_plain_text
from ldm.plain_yaml import entries_of_yaml, parse_yaml
from ldm.scheduler_names import scheduler_named

REFINED = ("guidance_rescale", "guidance_low", "guidance_high")
"""What there is to guidance besides its scale (`ldm.diffusion.sampling.guidance.Guidance`)."""
FURTHER = ("prompt_2", "prompt_3")
"""What the second and third text encoder of a model are given instead, in diffusers' words."""
KOHYA: Mapping[str, str] = {
    "n": "negative",
    "w": "width",
    "h": "height",
    "d": "seed",
    "l": "guidance",
    "s": "steps",
    "ss": "scheduler",
}
KINDS: Mapping[str, type] = {
    "prompt": str,
    **dict.fromkeys(FURTHER, str),
    "negative": str,
    "width": int,
    "height": int,
    "seed": int,
    "guidance": float,
    **dict.fromkeys(REFINED, float),
    "steps": int,
    "scheduler": str,
}
LEAST: Mapping[str, int] = {"width": 1, "height": 1, "seed": 0, "guidance": 0, "steps": 1, **dict.fromkeys(REFINED, 0)}
OPTION = re.compile(r"\s--(?=[^\s-])")


@dataclass(frozen=True)
class Prompt:
    """A text to draw; `settings` are those of `KINDS` that it says itself, `where` it is written."""

    text: str
    settings: Mapping[str, Any]
    where: str = field(default="", compare=False)

    @property
    def caption(self) -> Caption:
        """What the text encoders are given."""
        return for_each(self.text, [self.settings.get(name) for name in FURTHER])


def read_prompts(path: Path, where: str = "--prompts") -> list[Prompt]:
    """The prompts in a file, YAML (or JSON) by its ending. Raises `Fault` CFG01 to CFG03 for what cannot be read."""
    if path.suffix == ".toml":
        fix = "write a prompt a line in a .txt, or a list in a .yaml"
        raise Fault("CFG02", f"{path} is TOML", where=where, fix=fix)
    try:
        text = read_plain_text(path)
    except OSError as error:
        raise Fault("CFG01", f"prompts file not found: {path}", where=where, why=str(error.strerror)) from error
    except UnicodeDecodeError as error:
        raise Fault("CFG02", f"{path} is not UTF-8 text", why=error.reason, fix="save the file as UTF-8") from error
    except ValueError as error:
        raise Fault("CFG02", f"{path} is no list of prompts", where=where, why=str(error)) from error
    prompts = _from_yaml(text, path) if path.suffix in (".yaml", ".yml", ".json") else _from_lines(text, path)
    if not prompts:
        raise Fault("CFG02", f"{path} holds no prompts", where=where)
    return prompts


def read_prompt(line: str, where: str) -> Prompt:
    """One line: the text, then options such as `--n blurry`. Raises `Fault` CFG03 for options that cannot be."""
    text, *options = OPTION.split(" " + line)
    return Prompt(text.strip(), _unlike([_option(option.strip(), where) for option in options], where), where)


def read_entry(entry: Any, where: str) -> Prompt:
    """A line, or a map of settings. Raises `Fault` CFG03 for what is neither."""
    if isinstance(entry, (str, int, float)) and not isinstance(entry, bool):
        return read_prompt(str(entry), where)  # YAML reads a prompt such as 2022 as a number
    if not isinstance(entry, Mapping) or "prompt" not in entry:
        raise Fault("CFG03", "this is no prompt", where=where, fix="a text, or a map with `prompt:`")
    said = []
    for name, value in entry.items():
        _require_known(str(name), f"unknown setting {name}", KINDS, where)
        if not _fits(value, KINDS[name]):
            raise Fault("CFG03", f"{name}: expected {KINDS[name].__name__}, got {value!r}", where=where)
        said.append((name, value if name == "prompt" else _judged(name, value, name, where)))
    line = read_prompt(entry["prompt"], where)
    further = [(name, value) for name, value in said if name != "prompt"]
    return Prompt(line.text, _unlike([*further, *line.settings.items()], where), where)


def _from_lines(text: str, path: Path) -> list[Prompt]:
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [read_prompt(line, f"{path}:{number}") for number, line in lines if line and not line.startswith("#")]


def _from_yaml(text: str, path: Path) -> list[Prompt]:
    try:
        content = parse_yaml(text)
    except ValueError as error:
        raise Fault("CFG02", f"{path} is not valid YAML", why=str(error)) from error
    if not isinstance(content, list):
        raise Fault(
            "CFG02", f"{path} is not a list of prompts", fix="begin each with `- `, or `- prompt:` for settings"
        )
    prompts = []
    for entry, (line, keys) in zip(content, entries_of_yaml(text), strict=True):
        _unlike([(key, None) for key in keys], f"{path}:{line}")
        prompts.append(read_entry(entry, f"{path}:{line}"))
    return prompts


def _option(option: str, where: str) -> tuple[str, Any]:
    word, *rest = option.split(None, 1)
    name, text = KOHYA.get(word.lower(), word.replace("-", "_")), rest[0] if rest else ""
    _require_known(name, f"unknown option --{word} of a prompt", [name for name in KINDS if name != "prompt"], where)
    try:
        value = KINDS[name](text)
    except ValueError as error:
        raise Fault("CFG03", f"--{word} of a prompt takes a number, not {text!r}", where=where) from error
    return name, _judged(name, value, f"--{word}", where)


def _require_known(name: str, what: str, names: Mapping[str, Any] | list[str], where: str) -> None:
    if name in names:
        return
    short = ", ".join(f"--{letter} {long}" for letter, long in KOHYA.items())
    near = get_close_matches(name, names, 1)
    fix = f"did you mean {near[0]}?" if near else ""
    raise Fault("CFG03", what, where=where, why=f"a prompt takes: {', '.join(names)}; in a line {short}", fix=fix)


def _judged(name: str, value: Any, called: str, where: str) -> Any:
    """A value that can be. Raises `Fault` CFG03."""
    if name == "scheduler":
        judge: Callable[[str], str] = scheduler_named
        try:
            return judge(value)
        except ValueError as error:
            raise Fault("CFG03", f"there is no scheduler {value!r}", where=where, why=str(error)) from error
    least = LEAST.get(name)
    if least is not None and not least <= value <= sys.float_info.max:
        kind = "whole" if KINDS[name] is int else "finite"
        raise Fault("CFG03", f"{called} of a prompt takes a {kind} number from {least} on, not {value}", where=where)
    return value


def _unlike(said: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    """By name. Raises `Fault` CFG03 for what is said twice."""
    names = [name for name, _ in said]
    if twice := [name for name in names if names.count(name) > 1]:
        raise Fault("CFG03", f"a prompt says its {twice[0]} twice", where=where, fix="leave one of them out")
    return dict(said)


def _fits(value: Any, kind: type) -> bool:
    kinds = (int, float) if kind is float else (kind,)
    return isinstance(value, kinds) and not isinstance(value, bool)
