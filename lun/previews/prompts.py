"""Prompts with settings of their own: a YAML list, or a line each with kohya's options; of previews and lun.sample."""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.modules.encoders.captions import Caption, for_each
from ldm.plain import read_plain_text
from ldm.plain_yaml import parse_yaml

log = logging.getLogger(__name__)
WHERE = "lightning.callbacks.image_logger.params.prompts"
FIRST_SEED = 42
REFINED = ("guidance_rescale", "guidance_low", "guidance_high")
"""What there is to guidance besides its scale (`ldm.diffusion.guidance.Guidance`)."""
FURTHER = ("prompt_2", "prompt_3")
"""What the second and third text encoder of a model are told instead, in diffusers' words."""
PREVIEWED = (*FURTHER, "negative", "seed", "guidance", *REFINED, "steps")
"""What a prompt of a preview may say: previews have one size and one solver, so that they can be compared."""

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
    "prompt_2": str,
    "prompt_3": str,
    "negative": str,
    "width": int,
    "height": int,
    "seed": int,
    "guidance": float,
    "guidance_rescale": float,
    "guidance_low": float,
    "guidance_high": float,
    "steps": int,
    "scheduler": str,
}
OPTION = re.compile(r"\s--(?=[A-Za-z]+(?:\s|$))")


@dataclass(frozen=True)
class Prompt:
    """A text to draw; `settings` are those of `KINDS` that it says itself."""

    text: str
    settings: Mapping[str, Any]

    @property
    def caption(self) -> Caption:
        """What the text encoders are told."""
        return for_each(self.text, [self.settings.get(name) for name in FURTHER])


def prompts_of(source: Sequence[str] | str) -> list[Prompt]:
    """Those of a list of lines, or of the file that is named."""
    if isinstance(source, str):
        return read_prompts(Path(source), WHERE)
    return [read_prompt(str(line), WHERE) for line in source]  # YAML reads a prompt such as 2022 as a number


def read_prompts(path: Path, where: str = "--prompts") -> list[Prompt]:
    """The prompts in a file, YAML by its ending. Raises `Fault` CFG01 to CFG03 for what cannot be read."""
    try:
        text = read_plain_text(path)
    except OSError as error:
        raise Fault("CFG01", f"prompts file not found: {path}", where=where, why=str(error.strerror)) from error
    except UnicodeDecodeError as error:
        raise Fault("CFG02", f"{path} is not UTF-8 text", why=error.reason, fix="save the file as UTF-8") from error
    except ValueError as error:
        raise Fault("CFG02", f"{path} is no list of prompts", where=where, why=str(error)) from error
    prompts = _from_yaml(text, path) if path.suffix in (".yaml", ".yml") else _from_lines(text, path)
    if not prompts:
        raise Fault("CFG02", f"{path} holds no prompts", where=where)
    return prompts


def _from_lines(text: str, path: Path) -> list[Prompt]:
    lines = ((number, line.strip()) for number, line in enumerate(text.splitlines(), 1))
    return [read_prompt(line, f"{path}:{number}") for number, line in lines if line and not line.startswith("#")]


def read_prompt(line: str, where: str) -> Prompt:
    """One line: the text, then options such as `--n blurry`. Raises `Fault` CFG03 for options that do not exist."""
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
        content = parse_yaml(text)
    except ValueError as error:
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
            why, near = f"a prompt takes: {', '.join(KINDS)}", get_close_matches(str(name), KINDS, 1)
            fix = f"did you mean {near[0]}?" if near else ""
            raise Fault("CFG03", f"unknown setting {name}", where=where, why=why, fix=fix)
        if not _fits(value, KINDS[name]):
            raise Fault("CFG03", f"{name}: expected {KINDS[name].__name__}, got {value!r}", where=where)
    return Prompt(entry["prompt"], {name: value for name, value in entry.items() if name != "prompt"})


def _fits(value: Any, kind: type) -> bool:
    kinds = (int, float) if kind is float else (kind,)
    return isinstance(value, kinds) and not isinstance(value, bool)


class Prompts:
    """The `current` prompts of previews: of a list, or of a file, which is read again each time.

    guidance  the scale of those that say none. Raises `Fault` at the start for what cannot be read or drawn; a file
              that becomes so later leaves the prompts as they are
    """

    def __init__(self, source: Sequence[str] | str, guidance: float) -> None:
        self.source: Sequence[str] | str = str(Path(source).absolute()) if isinstance(source, str) else source
        self.guidance = guidance
        self.current = self._read()

    def read_again(self) -> list[Prompt]:
        """The prompts as they stand in the file now; a list stays what it is."""
        try:
            self.current = self._read() if isinstance(self.source, str) else self.current
        except Fault as fault:
            log.warning("the prompts stay as they were: %s", fault.what)
        return self.current

    def _read(self) -> list[Prompt]:
        prompts = prompts_of(self.source)
        for prompt in prompts:
            _require_previewable(prompt, self.guidance)
        return prompts


def seeds_of(prompts: Sequence[Prompt]) -> list[int]:
    """One fixed seed for each: its own, else 42 and its place."""
    return [prompt.settings.get("seed", FIRST_SEED + place) for place, prompt in enumerate(prompts)]


def drawn_at_once(prompts: Sequence[Prompt], most: int) -> Iterator[list[int]]:
    """Places of up to `most` neighbours that are drawn alike."""
    few: list[int] = []
    for place, prompt in enumerate(prompts):
        if few and (len(few) == most or _how(prompts[few[0]]) != _how(prompt)):
            yield few
            few = []
        few.append(place)
    if few:
        yield few


def _how(prompt: Prompt) -> tuple[Any, ...]:
    return tuple(prompt.settings.get(name) for name in ("steps", "guidance", *REFINED))


def refined(prompt: Prompt, options: Mapping[str, Any], guidance: float) -> dict[str, Any]:
    """What a prompt says of its guidance besides the scale, else `options`, unless its scale is 1."""
    given = {**(options if guidance != 1.0 else {}), **prompt.settings}
    return {name: given[name] for name in REFINED if given.get(name) is not None}


def _require_previewable(prompt: Prompt, guidance: float) -> None:
    for name in prompt.settings:
        if name not in PREVIEWED:
            raise Fault(
                "CFG08",
                f"{name} of the prompt {prompt.text!r} has no effect on a preview",
                where=WHERE,
                why="previews have the size of the model and one solver, so that they can be compared over steps",
                fix=f"leave it out here; python -m lun.sample draws it. A preview takes: {', '.join(PREVIEWED)}",
            )
    guiding = [name for name in ("negative", *REFINED) if prompt.settings.get(name)]
    if guiding and prompt.settings.get("guidance", guidance) == 1.0:
        raise Fault(
            "CFG08",
            f"the {guiding[0]} of the prompt {prompt.text!r} has no effect",
            where=WHERE,
            why="it says how guidance leads away, and a scale of 1 is no guidance",
            fix="log_images_kwargs: {unconditional_guidance_scale: 5.0}, or --l 5 behind the prompt",
        )
