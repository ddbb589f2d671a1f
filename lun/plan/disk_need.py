"""What a run is going to write, against what is free where it writes; and whether it may write there."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.lightning_classes import Callback
from ldm.models.base import TrainedModel
from ldm.models.model_parts import PartSize
from lun.callbacks.space import files_kept
from lun.checkpoints.memory_estimate import amount
from lun.plan.fixed_memory import bytes_of, lower_halves, state_bytes

EIGHT_BITS = 2.0
"""Bytes of states for each trained weight of an 8-bit AdamW, which stands for optimizers that cannot be asked here."""


@dataclass(frozen=True)
class DiskNeed:
    """Bytes of a checkpoint, how many of them stay, and what is free.

    about  whether the optimizer's states were guessed
    """

    checkpoint: float
    count: int
    free: int
    about: bool = False

    @property
    def total(self) -> float:
        return self.checkpoint * self.count

    def describe(self, place: str) -> str:
        """`checkpoint 10.3 GB, 3 kept = 30.9 GB, of 812 GB free in logs`."""
        about = "about " if self.about else ""
        kept = f"checkpoint {about}{amount(self.checkpoint)}, {self.count} kept = {amount(self.total)}"
        return f"{kept}, of {amount(self.free)} free in {place}" + (": TOO LITTLE" if self.total > self.free else "")


def disk_need(
    model: TrainedModel, parts: Sequence[PartSize], policy: Any, callbacks: Sequence[Callback], steps: int, place: Path
) -> DiskNeed:
    """What the checkpoints take of a run of so many steps (-1: without a limit) that writes below `place`.

    policy  of the precision; over a base with adapters checkpoints hold what trains alone
    """
    trained, states = sum(part.trained for part in parts), state_bytes(model.optimizer_config)
    whole = sum(bytes_of(part, policy) + lower_halves(part, policy) for part in parts)
    weights = 4 * trained if model.adapter_config is not None else whole
    average = 4 * trained if model.use_ema else 0
    size = weights + average + trained * (EIGHT_BITS if states is None else states)
    kept = files_kept(callbacks, steps if steps > 0 else None)
    return DiskNeed(size, kept, shutil.disk_usage(existing(place)).free, about=states is None)


def require_writable(place: Path, said_by: str) -> None:
    """Raise `Fault` DSK01 where nothing can be written below `place`, which the setting or flag `said_by` names."""
    there = existing(place)
    if not there.is_dir():
        why, fix = f"{there} is no folder", f"{said_by} FOLDER"
    elif not os.access(there, os.W_OK | os.X_OK):
        why, fix = f"this user may not write into {there}", f"{said_by} /a/place/that/can/be/written"
    else:
        return
    raise Fault("DSK01", f"cannot write into {place}", where=said_by, why=why, fix=fix)


def existing(place: Path) -> Path:
    """The path, or the nearest above it that is there."""
    absolute = place.absolute()
    return next(path for path in (absolute, *absolute.parents) if path.exists())
