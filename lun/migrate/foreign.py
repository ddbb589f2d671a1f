"""What all readers of other trainers' files share: settings that are taken one by one, and sets with their names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path, PurePath
from typing import Any

from ldm.errors import Fault
from ldm.plain import parse_json
from lun.config.reading.yaml_files import read_text
from lun.data.index.listing import CAPTION_EXTENSIONS

LOCAL = "lun.data.local.Local"

NOTHING: tuple[Any, ...] = (None, False, 0, "", [], {})
"""Values by which a setting is off, so that it need not be reported."""


class Taken:
    """The settings of one map, taken by name; what nobody took and is not off is reported at the end."""

    def __init__(self, given: Any, where: str) -> None:
        if not isinstance(given, Mapping):
            raise Fault("CFG02", f"{where} is no map", where=where, why=f"it is a {type(given).__name__}")
        self.given = given
        self.where = where
        self.names: set[str] = set()

    def __call__(self, name: str, otherwise: Any = None) -> Any:
        """The value of a setting, `otherwise` where it is absent or null."""
        self.names.add(name)
        value = self.given.get(name)
        return otherwise if value is None else value

    def number(self, name: str, otherwise: float = 0) -> float:
        """A number, also one that is written as text. Raises `Fault` CFG02 for what is none."""
        value = self(name, otherwise)
        try:
            found = float(value)
        except (TypeError, ValueError):
            what = f"{self.where}.{name} is no number: {value!r}"
            raise Fault("CFG02", what, where=f"{self.where}.{name}") from None
        return int(found) if found.is_integer() else found

    def text(self, name: str) -> str:
        """A text, empty where there is none."""
        return str(self(name, ""))

    def rest(self) -> dict[str, Any]:
        """What was not taken yet and is not off."""
        return {key: one for key, one in self.given.items() if key not in self.names and one not in NOTHING}

    def left(self, *harmless: str) -> list[str]:
        """One line for each setting that was not taken, except those that change nothing here."""
        return [f"{self.where}.{key}: {value!r}" for key, value in self.rest().items() if key not in harmless]


def joined(content: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested maps as one, their names joined by dots."""
    found: dict[str, Any] = {}
    for name, value in content.items():
        found |= joined(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return found


def listed(name: str, beside: Path) -> Any:
    """What a JSON file holds that lies where it says or beside the preset, None where there is none."""
    path = next((one for one in (Path(name), beside / name, beside / Path(name).name) if one.is_file()), None)
    return None if path is None else parse_json(read_text(path))


@dataclass
class Found:
    """The sets of a file, sizes of buckets where it has several, settings of the run by path that follow from them,
    and what stands there without a counterpart."""

    sets: dict[str, dict[str, Any]] = field(default_factory=dict)
    resolutions: dict[str, list[int]] = field(default_factory=dict)
    buckets: dict[str, Any] = field(default_factory=dict)
    batch_size: int | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    def add(self, name: str, params: Mapping[str, Any], resolutions: Sequence[float], square: bool, **said: Any) -> str:
        """A set under a name that no other has, and the sides it is read at; empty values are left out."""
        stem = re.sub(r"[^\w\-]+", "-", PurePath(name).name).strip("-_") or "set"
        free = next(one for one in chain([stem], (f"{stem}-{n}" for n in count(2))) if one not in self.sets)
        params = {key: value for key, value in params.items() if value not in (None, {}, "")}
        captions = {key: value for key, value in (params.get("captions") or {}).items() if value not in NOTHING}
        params = {key: value for key, value in params.items() if key != "captions"}
        if captions:
            params["captions"] = captions
        self.sets[free] = {"target": LOCAL, "params": params} | {k: v for k, v in said.items() if v is not None}
        self.resolutions[free] = sorted({int(side) for side in resolutions if side})
        if not square:
            self.buckets.setdefault("resolutions", [])
        return free

    def layer(self) -> dict[str, Any]:
        """The configuration. Raises `Fault` CFG02 where there is no set."""
        if not self.sets:
            raise Fault("CFG02", "the file names no data set that training reads", why="\n".join(self.unread))
        sides = sorted({side for several in self.resolutions.values() for side in several})
        in_buckets = "resolutions" in self.buckets or len(sides) > 1
        for name, one in self.sets.items():
            own = self.resolutions[name]
            if not in_buckets and own:
                one["params"]["size"] = own[0]
            elif own and own != sides:
                one["resolutions"] = own
        params: dict[str, Any] = {"batch_size": self.batch_size} if self.batch_size else {}
        params["train"] = {"sets": self.sets}
        if in_buckets:
            params["buckets"] = {**self.buckets, "resolutions": sides or [512]}
        return {"data": {"params": params}}


def caption_files(ending: str) -> list[str] | None:
    """`captions.files` for an ending that is not read unless it is named."""
    plain = ending.lstrip(".").lower()
    return None if plain in ("", *CAPTION_EXTENSIONS) else [plain]


def share_by_weight(found: Found, regular: Sequence[str], regularising: Sequence[str]) -> None:
    """Give half of what is read to regularisation sets, as trainers do that read as many of them as of the others.

    Pictures are not counted here: several sets of one side share alike, in the proportion of their repeats.
    """
    for side in (regular, regularising):
        repeats = {name: found.sets[name].pop("repeats", 1) for name in side}
        for name, times in repeats.items():
            found.sets[name]["weight"] = round(times / sum(repeats.values()), 4)
    if len(regular) > 1 or len(regularising) > 1:
        found.unread.append("weights of several sets on one side follow their repeats, not how many pictures each has")
