"""How averages enter and leave checkpoints: CompVis' names, and what an exact resume needs besides."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor

from ldm.ema.model_weights import ParameterSource, Sharded
from ldm.ema.tracks import Track
from ldm.ema.trailing_mean import WindowTrack
from ldm.errors import Fault
from ldm.files.lazy_tensor import LazyShardedTensor, writable, write_through

logger = logging.getLogger(__name__)

Rename = Callable[[dict[str, Tensor]], dict[str, Tensor]]
"""From the model's own names to those on disk: new names for the very tensors it gets, which it may also join, part and
reshape. To load an average it gets stand-ins for them (`ldm.files.lazy_tensor.writable`)."""

T = TypeVar("T")

SCALARS = frozenset({"num_updates", "decay"})


def compvis_keys(state: Mapping[str, T]) -> dict[str, T]:
    """`state` under its names without dots, as CompVis stores an EMA; ValueError where two names would become one."""
    names: dict[str, str] = {}
    for name in state:
        key = name.replace(".", "")
        if key in SCALARS:
            raise ValueError(f"an averaged parameter cannot be called {name!r}: checkpoints use {key!r} for a number")
        if key in names:
            raise ValueError(f"{names[key]!r} and {name!r} cannot be averaged together: without dots both are {key!r}")
        names[key] = name
    return {key: state[name] for key, name in names.items()}


def track_numbers(track: Track) -> dict[str, Any]:
    """`last_update`, and where its law begins, if not with the run."""
    numbers: dict[str, Any] = {"last_update": track.last_update}
    if track.start:
        numbers["start"] = track.start
    return numbers


def take_numbers(track: Track, state: Mapping[str, Any]) -> None:
    """Set what `track_numbers` gave."""
    track.last_update = int(state["last_update"])
    track.start = int(state.get("start", 0))


def main_state(track: Track, source: ParameterSource, rename: Rename) -> dict[str, Any]:
    """What an exact resume needs of the main average besides its values: its numbers, and `blocks` of which it is."""
    if track.blocks is None:
        return track_numbers(track)
    return track_numbers(track) | {"blocks": [track_state(block, source, rename) for block in track.blocks]}


def load_main(track: Track, source: ParameterSource, state: Mapping[str, Any], rename: Rename) -> None:
    """Set what `main_state` gave; blocks that were not stored are one, whose mean is the average that was loaded."""
    take_numbers(track, state)
    if not isinstance(track, WindowTrack) or track.shadow is None:
        return
    stored = state.get("blocks")
    numbers = None if stored is None else [(int(s.get("start", 0)), int(s["last_update"])) for s in stored]
    track.restart(numbers)
    for block, values in zip(track.blocks, stored or (), strict=False):
        load_track(block, source, values, rename)


def gathered(source: ParameterSource, parts: dict[str, Tensor]) -> dict[str, Tensor]:
    """Whole tensors of an average's; with a sharded source on rank 0 alone, empty on the others. Collective then."""
    return source.whole(parts) if isinstance(source, Sharded) else parts


@contextmanager
def targets(
    source: ParameterSource, parts: dict[str, Tensor], rename: Rename
) -> Iterator[dict[str, LazyShardedTensor]]:
    """Tensors by name on disk to write into: the average's own, or whole ones, of which the ranks take their parts."""
    if not isinstance(source, Sharded):
        yield places(parts, rename)
        return
    whole = {name: torch.empty(shape) for name, shape in source.shapes().items()}
    yield places(whole, rename)
    for name, part in source.own(whole).items():
        parts[name].copy_(part)


def track_state(track: Track, source: ParameterSource, rename: Rename) -> dict[str, Any]:
    """A whole track: its numbers, and `weights` by name on disk (fp32)."""
    assert track.shadow is not None
    return track_numbers(track) | {"weights": rename(gathered(source, dict(track.shadow.views)))}


def load_tracks(
    tracks: Mapping[str, Track],
    source: ParameterSource,
    stored: Mapping[str, Mapping[str, Any]],
    rename: Rename,
    begin: Callable[[Track], None],
) -> None:
    """Set what `track_state` gave of each but "ema" itself; one that was not stored begins now, with a warning."""
    for name, track in tracks.items():
        if track is tracks["ema"] or (name not in stored and track.shadow is None):
            continue
        begin(track)
        if name in stored:
            load_track(track, source, stored[name], rename)
        else:
            logger.warning("the checkpoint does not hold the average %s: it begins at step %d", name, track.last_update)
    if unknown := sorted(stored.keys() - tracks.keys()):
        logger.warning("the checkpoint's averages %s are not kept here and were left out", ", ".join(unknown))


@torch.no_grad()
def load_track(track: Track, source: ParameterSource, state: Mapping[str, Any], rename: Rename) -> None:
    """Set what `track_state` gave, into a track that has begun. `Fault` MOD03, with nothing changed, on a misfit."""
    assert track.shadow is not None
    with targets(source, dict(track.shadow.views), rename) as places:
        fill(places, state["weights"])
    take_numbers(track, state)


def fill(places: Mapping[str, LazyShardedTensor], state: Mapping[str, Tensor]) -> None:
    """Copy `state` into `places`; `Fault` MOD03, with nothing changed, on a misfit."""
    refuse_misfits(state, places)
    for key, place in places.items():
        write_through(place, state[key])


def warn_of_unknown(state: Mapping[str, Tensor], places: Mapping[str, Tensor]) -> None:
    """Warn of weights in `state` that have no place."""
    if unknown := sorted(state.keys() - places.keys() - SCALARS):
        count = len(unknown)
        logger.warning(
            "%d EMA weights of the checkpoint are not trained here and were left out (%s ...)", count, unknown[0]
        )


def refuse_misfits(state: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> None:
    """`Fault` MOD03 if a tensor of `targets` is absent from `state` or of another shape."""
    missing = [f"{key} is missing" for key in targets if key not in state]
    shapes = [
        f"{key} is {tuple(state[key].shape)} instead of {tuple(target.shape)}"
        for key, target in targets.items()
        if key in state and state[key].shape != target.shape
    ]
    if misfits := missing + shapes:
        raise Fault(
            "MOD03",
            "the EMA weights of this checkpoint do not fit this model",
            why=f"{len(misfits)} of {len(targets)} differ; {'; '.join(misfits[:3])}",
            fix="load it without its EMA, which then starts from the weights",
        )


def places(parts: Mapping[str, Tensor], rename: Rename) -> dict[str, LazyShardedTensor]:
    """Tensors by name on disk that write into `parts`; ValueError for one that would change nothing there."""
    renamed = rename({name: writable(part) for name, part in parts.items()})
    written = {key: place for key, place in renamed.items() if isinstance(place, LazyShardedTensor)}
    if copies := sorted(renamed.keys() - written.keys()):
        raise ValueError(f"rename gave copies instead of views ({copies[0]} ...), which cannot be loaded into")
    return written
