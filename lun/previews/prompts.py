"""The prompts of previews and `lun.sample`: which there are, their seeds, and which of them are drawn at once."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from lun.previews.prompt_grammar import REFINED, Prompt, read_entry, read_prompts

log = logging.getLogger(__name__)
WHERE = "lightning.callbacks.image_logger.params.prompts"
FIRST_SEED = 42
HOW = ("width", "height", "steps", "guidance", *REFINED, "scheduler")
"""What prompts that are drawn at once have in common."""

Source = Sequence[str | Mapping[str, Any]] | str
"""Prompts as lines and maps, or the file that holds them."""


def prompts_of(source: Source) -> list[Prompt]:
    """Those of a list of lines and maps, or of the file that is named."""
    if isinstance(source, str):
        return read_prompts(Path(source), WHERE)
    return [read_entry(entry, f"{WHERE}[{place}]") for place, entry in enumerate(source)]


class Prompts:
    """The `current` prompts of previews: of a list, or of a file, which is read again each time.

    guidance  the scale of those that say none. Raises `Fault` at the start for what cannot be read or drawn; a file
              that becomes so later leaves the prompts as they are
    """

    def __init__(self, source: Source, guidance: float) -> None:
        self.source: Source = str(Path(source).absolute()) if isinstance(source, str) else source
        self.guidance = guidance
        self._require: Callable[[Prompt], object] = lambda prompt: None
        self.current = self._read()

    def require(self, judge: Callable[[Prompt], object]) -> None:
        """Let each prompt, those to come too, be judged by what raises a `Fault`."""
        self._require = judge
        for prompt in self.current:
            judge(prompt)

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
            require_guided(prompt, self.guidance)
            self._require(prompt)
        return prompts


def require_guided(prompt: Prompt, guidance: float) -> None:
    """Raise `Fault` CFG08 for a prompt that says how it is guided and is not.

    guidance  the scale of prompts that say none
    """
    guiding = [name for name in ("negative", *REFINED) if prompt.settings.get(name)]
    if guiding and prompt.settings.get("guidance", guidance) == 1.0:
        raise Fault(
            "CFG08",
            f"the {guiding[0]} of the prompt {prompt.text!r} has no effect",
            where=prompt.where,
            why="it says how guidance leads away, and a scale of 1 is no guidance",
            fix="--l 5 behind the prompt, or a guidance of all (log_images_kwargs.unconditional_guidance_scale, or"
            " --guidance of lun.sample)",
        )


def seeds_of(prompts: Sequence[Prompt]) -> list[int]:
    """One fixed seed for each: its own, else 42 and its place."""
    return [prompt.settings.get("seed", FIRST_SEED + place) for place, prompt in enumerate(prompts)]


def labels_of(prompts: Sequence[Prompt]) -> list[str]:
    """What each is called: its text, and its settings where others have its text and its seed."""
    named = [(prompt.text, seed) for prompt, seed in zip(prompts, seeds_of(prompts), strict=True)]
    several = Counter(named)
    return [
        f"{prompt.text} ({said})" if several[name] > 1 and (said := _said(prompt)) else prompt.text
        for prompt, name in zip(prompts, named, strict=True)
    ]


def _said(prompt: Prompt) -> str:
    return ", ".join(f"{name} {value}" for name, value in prompt.settings.items() if name != "seed")


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
    return tuple(prompt.settings.get(name) for name in HOW)


def how_of(prompt: Prompt, options: Mapping[str, Any]) -> dict[str, Any]:
    """How a prompt is drawn, in the words of a model's `sample_prompts`: as it says, else as `log_images_kwargs` do.

    What refines guidance is left out where the prompt's scale is 1.
    """
    said = prompt.settings
    guidance = float(said.get("guidance", options.get("unconditional_guidance_scale", 1.0)))
    given = {**(options if guidance != 1.0 else {}), **said}
    further = {name: given[name] for name in REFINED if given.get(name) is not None}
    further |= {"scheduler": said["scheduler"]} if "scheduler" in said else {}
    return {"steps": int(said.get("steps", options.get("ddim_steps", 50))), "guidance": guidance, **further}
