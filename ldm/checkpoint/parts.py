"""A whole Stable Diffusion checkpoint taken apart into the networks that it holds."""

from dataclasses import dataclass

from ldm.checkpoint.state import State

UNET = "model.diffusion_model."
FIRST_STAGE = "first_stage_model."
COND_STAGE = "cond_stage_model."
EMA = "model_ema."

ALSO_KNOWN_AS = {UNET: ("diffusion_model.",), FIRST_STAGE: ("vae.",)}


@dataclass(frozen=True)
class Parts:
    """The tensors of a checkpoint by part, each under its name without the part's prefix.

    `ema` has CompVis' names without dots; `rest` (schedule buffers, counters) keeps the names of the file.
    """

    unet: State
    first_stage: State
    cond_stage: State
    ema: State
    rest: State


def split_parts(state: State) -> Parts:
    """Sort the tensors of a CompVis checkpoint by the prefixes of their names."""
    prefixes = (UNET, FIRST_STAGE, COND_STAGE, EMA)
    rest = {key: value for key, value in state.items() if not key.startswith(prefixes)}
    unet, first_stage, cond_stage, ema = (below(state, prefix) for prefix in prefixes)
    return Parts(unet, first_stage, cond_stage, ema, rest)


def part_of(state: State, prefix: str) -> State:
    """The tensors of one part, from a whole checkpoint or from a file that holds this part alone."""
    for name in (prefix, *ALSO_KNOWN_AS.get(prefix, ())):
        if part := below(state, name):
            return part
    return state


def below(state: State, prefix: str) -> State:
    """The tensors whose names begin with `prefix`, without it."""
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
