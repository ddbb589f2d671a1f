"""Pictures that occur twice, within sets and across them, and those of validation that training reads."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lun.data.index.dir_handle import open_file
from lun.data.rejects import no_formula
from lun.inspect.prints import NO_PRINTS, prints_of
from lun.inspect.view import DatasetView

FILE = "duplicates.csv"
READ_AT_MOST = 20_000

Place = tuple[str, str]
"""(set, path) of a picture."""


@dataclass(frozen=True)
class Duplicates:
    """Groups of pictures of `count`: with the same bytes, and that look alike and are not all the same bytes."""

    count: int
    copies: Sequence[Sequence[Place]]
    alike: Sequence[Sequence[Place]]

    def copies_across(self, held_out: str) -> list[tuple[str, str]]:
        """(path, path in another set) of each of a set's pictures that has a copy there."""
        elsewhere: dict[str, str] = {}
        for group in self.copies:
            others = [path for name, path in group if name != held_out]
            elsewhere |= {path: others[0] for name, path in group if name == held_out and others}
        return sorted(elsewhere.items())

    def alike_across(self, held_out: str) -> int:
        """How many of a set's pictures look like one in another set, and have no copy there."""
        return len(_also_elsewhere(self.alike, held_out) - _also_elsewhere(self.copies, held_out))

    def write(self, file: Path) -> None:
        """One line a picture: its group, what the group has in common, its set and path."""
        groups = [*(("same file", group) for group in self.copies), *(("looks alike", group) for group in self.alike)]
        with file.open("x", newline="", encoding="utf-8", errors="backslashreplace") as out:
            lines = csv.writer(out)
            lines.writerow(("group", "kind", "set", "path"))
            for number, (kind, group) in enumerate(groups, start=1):
                lines.writerows((number, kind, *map(no_formula, place)) for place in group)


def _also_elsewhere(groups: Sequence[Sequence[Place]], name: str) -> set[Place]:
    mixed = (group for group in groups if len({place[0] == name for place in group}) == 2)
    return {place for group in mixed for place in group if place[0] == name}


def duplicates_of(sets: Mapping[str, DatasetView]) -> Duplicates:
    """Reads every picture of all sets once."""
    prints, places = NO_PRINTS, []
    for name, data in sets.items():
        if data.has_pictures:
            prints += prints_of(data, range(len(data)))
            places += [(name, data.name(index)) for index in range(len(data))]
    copies = prints.copies()
    same = [frozenset(group) for group in copies]
    of_place = {place: number for number, group in enumerate(same) for place in group}
    alike = [group for group in prints.alike() if not _all_the_same(group, same, of_place)]
    return Duplicates(
        len(places), *([[places[place] for place in group] for group in found] for found in (copies, alike))
    )


def _all_the_same(group: Sequence[int], same: Sequence[frozenset[int]], of_place: Mapping[int, int]) -> bool:
    first = of_place.get(group[0])
    return first is not None and same[first].issuperset(group)


def held_out_copies(training: Mapping[str, DatasetView], held_out: DatasetView) -> list[tuple[str, str]]:
    """(path of a picture held out, where training reads the same bytes); of equal size alone are files read, at most
    20,000 pictures, and none of packed sets."""
    by_size: dict[int, list[Path]] = {}
    for data in training.values():
        if data.has_files:
            for index, size in enumerate(data.file_bytes()):
                by_size.setdefault(size, []).append(Path(data.file(index)))
    if not held_out.has_files:
        return []
    found, known = [], dict[Path, bytes]()
    for index, size in enumerate(held_out.file_bytes()):
        own, others = Path(held_out.file(index)), by_size.get(size, [])
        if others and len(known) < READ_AT_MOST:
            digests = {path: known.setdefault(path, known.get(path) or _digest(path)) for path in (own, *others)}
            twin = next((path for path in others if digests[own] and digests[path] == digests[own]), None)
            found += [(held_out.name(index), str(twin))] if twin else []
    return found


def _digest(path: Path) -> bytes:
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "blake2b").digest()
    except OSError:  # it went away since the folder was read
        return b""
