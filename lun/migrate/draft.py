"""What a configuration of another program comes to: layers, settings with comments, words of a command, notes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lun.config.commented_yaml import Comments, Path, written
from lun.migrate.by_table import meaning
from lun.migrate.foreign import Found, Taken
from lun.other_trainers.counterparts import TRAIN, Counterpart, ProgramTable

UNKNOWN = "unknown"
_SECRET = re.compile(r"token$|api_key|secret|password")
"""Names whose values are neither shown nor written."""
_TITLES = {
    "none": "Without an equal here:",
    "same": "Said in another way here:",
    "idle": "Nothing has to be said of:",
    UNKNOWN: "Unknown, and not read:",
}


@dataclass
class Draft:
    """The configuration that is written.

    extends   shipped layers
    settings  nested maps
    comments  by the path of a setting
    words     of the command, besides the file
    notes     what has no setting, by what becomes of it: "none", "same" (said in another way), "idle", `UNKNOWN`
    """

    table: ProgramTable
    extends: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    comments: dict[Path, list[str]] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in _TITLES})

    @property
    def is_whole(self) -> bool:
        """Whether it says what to train, and not data sets alone."""
        return bool(self.extends) or "model" in self.settings

    def stand_on(self, *layers: str) -> None:
        """Name shipped layers, each once."""
        self.extends += [layer for layer in layers if layer not in self.extends]

    def set(self, path: str, value: Any, comment: str = "") -> None:
        """A setting; a map goes over one that is there key by key."""
        keys = tuple(path.split("."))
        if path.startswith(f"{TRAIN}.") and (sets := self._sets()):
            for name in sets:
                self.set(f"data.params.train.sets.{name}.params.{path.removeprefix(f'{TRAIN}.')}", value, comment)
                comment = ""
            return
        place = self.settings
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        both = isinstance(value, Mapping) and isinstance(place.get(keys[-1]), Mapping)
        if both:
            for key, one in value.items():
                self.set(f"{path}.{key}", one)
        else:
            place[keys[-1]] = value
        if comment:
            self.comments.setdefault(keys, []).append(comment)

    def _sets(self) -> dict[str, Any]:
        train = self.settings.get("data", {}).get("params", {}).get("train", {})
        sets: dict[str, Any] = train.get("sets", {})
        return sets

    def note(self, kind: str, line: str) -> None:
        """Something that no setting stands for."""
        self.notes[kind].append(line)

    def translate(self, taken: Taken) -> None:
        """All that is on and was not taken yet, by the table; what that does not know is noted as unknown."""
        for name, value in taken.rest().items():
            taken.names.add(name)
            shown = name if value is True or _SECRET.search(name) else f"{name} = {value}"
            known = self.table.rows.get(name)
            if known is None:
                self.note(UNKNOWN, shown)
            else:
                self.apply(known, value, shown)

    def apply(self, known: Counterpart, value: Any, shown: str) -> None:
        """What stands for one setting of the other program; `shown` is how it was written there."""
        known, settings, command = meaning(known, value)
        if known.kind in ("none", "idle") or not (known.words or known.base):
            self.note(known.kind, f"{shown}: {known.say.removeprefix('nothing to say: ')}")
            return
        self.stand_on(*known.base)
        comment = f"{shown}: {known.say}" if known.kind == "changed" else ""
        if comment and not settings:
            self.note("same", comment)
        for path, one in settings:
            self.set(path, one, comment)
            comment = ""
        self.words += command

    def lay(self, found: Found) -> None:
        """The data sets; one alone that says nothing of its own is a recipe."""
        layer = found.layer()["data"]["params"]
        sets = layer["train"]["sets"]
        (first, *others) = sets.values()
        if not others and first.keys() <= {"target", "params", "ucg_rate"}:
            layer["train"] = {"params": first["params"]}
            if "ucg_rate" in first:
                self.set("model.params.ucg_rate", first["ucg_rate"])
        self.set("data.params", layer)
        for path, value in found.settings.items():
            self.set(path, value)
        for line in found.unread:
            self.note("none", line)

    def text(self, head: list[str]) -> str:
        """The file."""
        foot = {title: self.notes[kind] for kind, title in _TITLES.items()}
        layers = {"extends": self.extends} if self.extends else {}
        return written({**layers, **_values_first(self.settings)}, Comments(self.comments), head, foot)


def _values_first(settings: Mapping[str, Any]) -> dict[str, Any]:
    """In each map what is a value stands before what is a map; `target` and `params` stay side by side."""
    ordered = sorted(settings.items(), key=lambda item: isinstance(item[1], Mapping))
    return {key: _values_first(one) if isinstance(one, Mapping) else one for key, one in ordered}
