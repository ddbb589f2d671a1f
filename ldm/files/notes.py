"""What this program notes in a checkpoint beside the weights, and that it is of the types that are counted on."""

import re
from collections.abc import Mapping
from typing import Any

import torch

from ldm.plain import fits

NOTES = "lun"
Count = int | float | None
_TOP: Mapping[str, Any] = {
    "state_dict": dict,
    "epoch": Count,
    "callbacks": dict[Any, Any],
    "optimizer_states": list[dict[Any, Any]],
    "lr_schedulers": list[dict[Any, Any]],
    "ema": dict[str, Any],
    "optimizer_settings": list[dict[Any, Any]],
    "base": dict[str, dict[str, str]],
    NOTES: dict[str, Any],
}
_NOTES: Mapping[str, Any] = {
    "position": dict[str, int],
    "data": dict[str, Any],
    "attempt": int,
    "threads": int | None,
    "resumed_from": str | None,
    "optimizer_steps": int,
    "diverged": bool,
}
_SETS: Mapping[str, Any] = {
    "sets": dict[str, dict[str, int | str]],
    "members": dict[str, dict[str, int]],
    "epoch_of": str,
    "start": dict[str, Any],
    "reached": dict[str, Any],
}
"""Of a run with several sets all of these."""
_START: Mapping[str, Any] = {
    "slot": int,
    "step": int,
    "epoch": int,
    "read": dict[str, dict[str, int]],
    "used": dict[str, int],
}
_OF_ONE_SET = ("n", "fingerprint", "law")
_SIZE = re.compile(r"any|\d{1,5}x\d{1,5}")
LARGEST = 1 << 62


def require_plausible(content: object) -> None:
    """Raise ValueError for a checkpoint whose counters and notes are of other types than whoever writes them uses.

    So that no reader of one, shared by anybody, meets a text where it counts on a number. Other files pass.
    """
    if not isinstance(content, Mapping):
        return
    step = content.get("global_step")
    if not fits(step, Count) and not (isinstance(step, torch.Tensor) and step.numel() == 1):
        raise ValueError(f"its global_step is {str(step)[:40]!r}")
    if NOTES not in content:
        return
    _require(content, _TOP, "")
    notes = content[NOTES]
    if notes and "position" not in notes:
        raise ValueError("its notes lack position")
    _require(notes, _NOTES, f"{NOTES}.")
    _require_data(notes.get("data", {}))
    numbers = [
        *notes.get("position", {}).items(),
        *_leaves(notes.get("data", {})),
        ("attempt", notes.get("attempt", 0)),
    ]
    if odd := next(((name, n) for name, n in numbers if isinstance(n, int) and not 0 <= n < LARGEST), None):
        raise ValueError(f"{odd[0]} of its notes is {str(odd[1])[:40]}")


def _require_data(data: Mapping[str, Any]) -> None:
    """What is noted of one set, or of several: where their order began, and what was read of each."""
    for name, found in data.items():
        if name not in _SETS and not fits(found, int | str | None):
            raise ValueError(f"{NOTES}.data.{name} is {type(found).__name__!s}")
    _require(data, _SETS, f"{NOTES}.data.")
    if data.keys().isdisjoint(_SETS):
        return
    _require_all(data, tuple(_SETS), f"{NOTES}.data")
    for name, one in data["sets"].items():
        _require_all(one, _OF_ONE_SET, f"{NOTES}.data.sets.{name}")
    for name in ("start", "reached"):
        _require_all(data[name], tuple(_START), f"{NOTES}.data.{name}")
        _require(data[name], _START, f"{NOTES}.data.{name}.")
        if odd := [size for size in (*data[name]["read"], *data[name]["used"]) if not _SIZE.fullmatch(size)]:
            raise ValueError(f"{NOTES}.data.{name} has the size {odd[0][:40]!r}")


def _require_all(found: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    if lacking := [name for name in names if name not in found]:
        raise ValueError(f"{where} lacks {lacking[0]}")


def _leaves(found: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """(name, value) of all that is no map, at any depth."""
    inside = [leaf for value in found.values() if isinstance(value, Mapping) for leaf in _leaves(value)]
    return inside + [(str(name), value) for name, value in found.items() if not isinstance(value, Mapping)]


def _require(entries: Mapping[str, Any], kinds: Mapping[str, Any], where: str) -> None:
    for name, kind in kinds.items():
        if name in entries and not fits(entries[name], kind):
            raise ValueError(f"{where}{name} is {type(entries[name]).__name__!s}")
