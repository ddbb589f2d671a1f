"""Captions with choices: `a {red|blue} coat` is one of two captions, drawn anew at each access."""

import re

import torch

from ldm.diffusion.draws import Draws

_TOKEN = re.compile(r"\{\{|\}\}|\{[^{}]*\|[^{}]*\}")


def with_choices(text: str, draws: Draws | None) -> str:
    """`text` with each `{a|b|c}` replaced by one of its parts as `draws` decide, the first without them.

    `{{` and `}}` are braces; braces without a `|` between them stay.
    """
    generator = draws("caption/wildcards") if draws is not None and "{" in text else None

    def replaced(found: re.Match[str]) -> str:
        if found[0] in ("{{", "}}"):
            return found[0][0]
        parts = found[0][1:-1].split("|")
        return parts[0 if generator is None else int(torch.randint(len(parts), (), generator=generator))]

    return _TOKEN.sub(replaced, text)
