"""What the solvers that draw samples are called: here, and by kohya's scripts."""

from collections.abc import Mapping
from typing import Literal, get_args

Scheduler = Literal["ddim", "euler", "dpmpp"]
"""See `ldm.diffusion.sampling.sampler.sample`."""

_THEIRS: Mapping[str, Scheduler] = {"k_euler": "euler", "dpmsolver++": "dpmpp"}
_BY_WORD: Mapping[str, Scheduler] = {**{name: name for name in get_args(Scheduler)}, **_THEIRS}


def scheduler_named(word: str) -> Scheduler:
    """The solver that a word of ours or of kohya's means. Raises ValueError, which lists those that there are."""
    if word not in _BY_WORD:
        raise ValueError(f"it can be {', '.join(get_args(Scheduler))}")
    return _BY_WORD[word]
