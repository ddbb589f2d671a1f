"""What the settings of a run name and this machine lacks: notes of `--check`, which judges the settings alone, and
faults of a plan and of a start."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ldm.errors import Fault
from ldm.util import is_recipe
from lun.config.declared.declarations import declared
from lun.config.declared.stand_ins import Unreadable
from lun.config.targets import find_target

PACKAGE = "DEP01"
UNCHECKED = "what is built with it is not checked"
OPTIMIZER = ("model", "params", "optimizer_config")
Path = tuple[str, ...]


def is_lacking(fault: Fault) -> bool:
    """Whether a fault of the settings is that a package is not installed, or that a file they name is not there."""
    return fault.id == PACKAGE or isinstance(fault.__cause__, FileNotFoundError)


def unchecked(fault: Fault) -> Fault:
    """The same, which says that nothing more is known of what it speaks of."""
    why = f"{fault.why}; {UNCHECKED}" if fault.why else UNCHECKED
    return Fault(fault.id, fault.what, where=fault.where, why=why, fix=fault.fix)


def places_of_lacking(config: Mapping[str, Any]) -> set[Path]:
    """The settings below which a recipe needs a package that is not installed: those that a run could do without
    (optimizer, schedule, a callback, a logger), else the recipe's own."""
    return {_optional(path) for path, target in _recipes(config, ()) if _lacks_package(target)}


def can_be_left_out(place: Path) -> bool:
    """Whether a run may be built without this setting."""
    return _optional(place) == place and bool(_width(place))


def without(config: Mapping[str, Any], places: Sequence[Path]) -> dict[str, Any]:
    """A copy of the configuration that lacks the settings at `places`."""
    left = copy.deepcopy(dict(config))
    for *above, name in places:
        home = left
        for key in above:
            home = home[key]
        del home[name]
    return left


def _optional(path: Path) -> Path:
    return path[: _width(path) or len(path)]


def _width(path: Path) -> int:
    """How many names of `path` lead to a setting that may be left out; 0 where it is in none."""
    if path[:3] in (OPTIMIZER, ("model", "params", "scheduler_config")):
        return 3
    return 3 if path[:2] in (("lightning", "callbacks"), ("lightning", "logger")) and len(path) > 2 else 0


def _recipes(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if is_recipe(value):
        yield path, value["target"]
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _recipes(inner, (*path, str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _recipes(inner, (*path, str(index)))


def _lacks_package(target: Any) -> bool:
    try:
        try:
            find_target(target, declared)
        except Unreadable:
            find_target(target)
    except Fault as fault:
        return fault.id == PACKAGE
    return False
