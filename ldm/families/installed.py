"""Families that installed packages name as entry points of the group `lun.families`: looked up, and not loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ldm.errors import Fault

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

GROUP = "lun.families"


def installed_families() -> Sequence[str]:
    """The names of all of them, in order."""
    return sorted({entry.name for entry in _entries()})


def path_of(name: str) -> str:
    """The import path of the family that a person named: an installed package's word for it, or the path itself.

    Nothing is imported. Raises `Fault` CFG04 for a word that no package has, or that two packages mean differently.
    """
    entries = {entry.value: entry for entry in _entries().select(name=name)}
    if not entries and "." in name:
        return name
    if len(entries) != 1:
        raise _not_one(name, list(entries.values()))
    (entry,) = entries.values()
    return f"{entry.module}.{entry.attr}"


def hint() -> str:
    """For messages: which of them could be asked for; empty where there are none."""
    names = installed_families()
    return f"; installed, and known where they are named: {', '.join(f'family={name}' for name in names)}" * bool(names)


def _entries() -> EntryPoints:
    from importlib.metadata import entry_points  # a parser of mails, which no start needs that names no family

    return entry_points(group=GROUP)


def _not_one(name: str, entries: Sequence[EntryPoint]) -> Fault:
    by_path = f"family=MODULE.{name.upper().replace('-', '_')}, the import path of its value"
    if entries:
        why = "; ".join(f"{entry.value} of {entry.dist.name if entry.dist else 'a package'}" for entry in entries)
        return Fault("CFG04", f"two packages have a family {name}", where="family", why=why, fix=by_path)
    known = ", ".join(installed_families())
    why = f"installed are {known}" if known else "no installed package has one"
    return Fault("CFG04", f"there is no family {name}", where="family", why=why, fix=by_path)
