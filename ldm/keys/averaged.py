"""Which weights of a training checkpoint go on: the averaged ones, or those that the last step left."""

from dataclasses import dataclass

import torch

from ldm.errors import Fault
from ldm.files.state import State
from ldm.keys.split_checkpoint import EMA

SCALARS = (EMA + "num_updates", EMA + "decay")


@dataclass(frozen=True)
class ChosenWeights:
    """One set of weights out of a checkpoint that may hold two.

    state      all tensors without those of the average
    averaged   how many of them are the average's; 0 where the raw weights were taken
    kept       trained parts of the network for which there was no average, of which the raw weights were taken
    """

    state: State
    averaged: int
    kept: tuple[str, ...] = ()


def holds_average(state: State) -> bool:
    """Whether a checkpoint holds averaged weights, and not merely the counters of an average that was off."""
    return any(key.startswith(EMA) and key not in SCALARS for key in state)


def choose_weights(state: State, ema: bool | None, source: str) -> ChosenWeights:
    """The weights to go on with: the average where there is one (None), in any case (True), or never (False).

    CompVis names an averaged weight like the weight itself, without `model.` and without dots.
    Raises `Fault` MOD03 if an average is asked for that is not there or has other shapes.
    """
    raw = {key: value for key, value in state.items() if not key.startswith(EMA)}
    if ema is False or not holds_average(state):
        if ema:
            raise Fault("MOD03", f"{source} holds no averaged (EMA) weights", fix="ema=false, or leave ema=true out")
        return ChosenWeights(raw, averaged=0)
    chosen, count, kept = dict(raw), 0, []
    networks = {key.split(".")[0] for key in raw if averaged_name(key) in state}
    for key, value in raw.items():
        average = state.get(averaged_name(key))
        if average is None:
            kept += [key] if key.split(".")[0] in networks else []
        else:
            chosen[key] = _fitting(key, average, value, source)
            count += 1
    return ChosenWeights(chosen, count, tuple(kept))


def averaged_name(key: str) -> str:
    return EMA + key.removeprefix("model.").replace(".", "")


def _fitting(key: str, average: torch.Tensor, raw: torch.Tensor, source: str) -> torch.Tensor:
    if average.numel() != raw.numel():
        why = f"{key} is {list(raw.shape)}, its average {list(average.shape)}"
        raise Fault("MOD03", f"the averaged weights in {source} do not fit its weights", why=why, fix="ema=false")
    return average.reshape(raw.shape)
