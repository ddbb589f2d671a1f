"""Which of `max_steps` and `max_epochs` counts, where a person asks for one and what lies below has the other."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from lun.config.reading.load_layers import COMMAND_LINE, DEFAULT, Merged
from lun.config.reading.order import is_own

LENGTHS = ("max_steps", "max_epochs")
TRAINER = ("lightning", "trainer")


def with_wanted_length(merged: Merged, stored: Collection[str]) -> tuple[Merged, list[str]]:
    """The configuration without the length that a person's own takes the place of, and a note of it.

    One's own are the command line and files of one's own; what a preset says, or a file that a run has `stored`,
    is the program's. Of two lengths of one's own both hold, and the shorter one ends the run.
    """
    trainer = (merged.config.get("lightning") or {}).get("trainer")
    if not isinstance(trainer, dict):
        return merged, []
    given = [name for name in LENGTHS if _is_a_length(trainer.get(name))]
    wanted = [name for name in given if _is_asked_for(merged.where((*TRAINER, name)), stored)]
    if len(given) < 2 or len(wanted) != 1:
        return merged, []
    (idle,) = set(given) - {*wanted}
    place = merged.where((*TRAINER, idle))
    note = f"{idle} {trainer[idle]} ({place}) gives way to {wanted[0]}, which says how long to train"
    lightning = {**merged.config["lightning"], "trainer": {**trainer, idle: None}}
    return merged.replaced(merged.config | {"lightning": lightning}), [note]


def _is_a_length(value: object) -> bool:
    """-1 and null are none; what is no number is refused later."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_asked_for(place: str, stored: Collection[str]) -> bool:
    if place in (COMMAND_LINE, DEFAULT):
        return place == COMMAND_LINE
    file = place.rpartition(":")[0] or place
    return file not in stored and is_own(Path(file))
