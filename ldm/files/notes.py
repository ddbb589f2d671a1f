"""What this program notes in a checkpoint beside the weights, and that it is of the types that are counted on."""

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
    "data": dict[str, int | str | None],
    "attempt": int,
    "threads": int | None,
    "resumed_from": str | None,
    "optimizer_steps": int,
    "diverged": bool,
}
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
    numbers = {**notes.get("position", {}), **notes.get("data", {}), "attempt": notes.get("attempt", 0)}
    if odd := next((name for name, n in numbers.items() if isinstance(n, int) and not 0 <= n < LARGEST), None):
        raise ValueError(f"{odd} of its notes is {str(numbers[odd])[:40]}")


def _require(entries: Mapping[str, Any], kinds: Mapping[str, Any], where: str) -> None:
    for name, kind in kinds.items():
        if name in entries and not fits(entries[name], kind):
            raise ValueError(f"{where}{name} is {type(entries[name]).__name__!s}")
