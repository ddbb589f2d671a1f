"""Checking recipes: that their target exists and that their params are what it takes."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ldm.admission import definition
from ldm.errors import Fault
from ldm.util import Recipe, built_by_owner, get_obj_from_str, is_recipe
from lun.config.declared.declarations import declared
from lun.config.declared.stand_ins import Unreadable
from lun.config.reading.load_layers import COMMAND_LINE, Merged
from lun.config.reading.yaml_tree import Path
from lun.config.schema import alternatives, mismatch, shown
from lun.config.several_sets import check_sets, names_sets
from lun.config.signature import Accepted, Parameter, accepted_by, target_at
from lun.config.slots import (
    ANY,
    DATASET,
    DATASETS,
    OWNED,
    SCHEDULE,
    Slot,
    is_torch_schedule,
    slot_of_annotation,
    slot_of_parameter,
)
from lun.config.suggestions import nearest
from lun.config.targets import Find, find_target

PLACEHOLDERS = ("__is_first_stage__", "__is_unconditional__")


class RecipeCheck:
    """Walks a merged configuration and collects `faults`."""

    def __init__(self, merged: Merged) -> None:
        self.merged = merged
        self.faults: list[Fault] = []
        self.find: Find = declared
        self.rest: list[Callable[[], None]] = []

    def check(self, value: Any, path: Path, slot: Slot) -> None:
        """A place where a recipe has to stand."""
        if not is_recipe(value):
            self.no_recipe(value, path, slot)
            return
        before = len(self.faults)
        try:
            self.recipe(value, path, slot)
        except Unreadable:
            del self.faults[before:]
            self.rest.append(lambda: self.check(value, path, slot))

    def look_at_the_rest(self) -> None:
        """Import what no source says enough of, where nothing is wrong but packages that are not installed."""
        self.find = get_obj_from_str
        while self.rest and all(fault.id == "DEP01" for fault in self.faults):
            self.rest.pop(0)()
        self.find = declared

    def recipe(self, value: Recipe, path: Path, slot: Slot) -> None:
        """A recipe that stands where one has to. Raises `Unreadable` where its target would have to be imported."""
        self.unknown_keys(value, ("target", "params", *slot.beside), path, "a recipe")
        target = self.target(value["target"], (*path, "target"), slot)
        params = value.get("params")
        if params is not None and not isinstance(params, Mapping):
            self.add("CFG03", f"{dotted(path)}.params: expected a map, got {shown(params)}", (*path, "params"))
            return
        if target is None:
            self.nested(params, (*path, "params"), ANY)
            return
        self.params(target, params or {}, (*path, "params"), slot)
        if "dataloader_params" in slot.beside:
            self.dataloader(value.get("dataloader_params"), (*path, "dataloader_params"))

    def no_recipe(self, value: Any, path: Path, slot: Slot) -> None:
        """Note that something else stands where a recipe has to."""
        place = dotted(path)
        if isinstance(value, Mapping):
            why = f"this place takes {slot.kind}, and nothing says which one the settings below it are for"
            self.add("CFG03", f"{place} has no target", path, why=why, fix=f"{place}.target=IMPORT.PATH")
            return
        what = f"{place}: expected {slot.kind} as a recipe, got {shown(value)}"
        self.add("CFG03", what, path, fix="write `target:` with an import path and `params:` with what it takes")

    def target(self, name: Any, path: Path, slot: Slot) -> Any:
        """The object that a recipe names, or None after noting why there is none."""
        if not isinstance(name, str):
            self.add("CFG04", f"{dotted(path)}: expected an import path, got {shown(name)}", path)
            return None
        try:
            part = find_target(name, self.find)
        except Fault as fault:
            self.add(fault.id, fault.what, path, why=fault.why, fix=fault.fix, full=True)
            return None
        if not slot.test(part):
            self.add("CFG04", f"target {name} does not fit here", path, why=f"this place takes {slot.kind}", full=True)
        return part

    def params(self, target: Any, params: Mapping[str, Any], path: Path, slot: Slot) -> None:
        """The params of one recipe against what its target takes."""
        accepted = self.accepted(target, path)
        if not accepted.anything:
            self.unknown_keys(params, accepted.parameters, path, definition(target))
        for name, value in params.items():
            self.parameter(target, name, value, accepted.parameters.get(name), (*path, name))
        if slot.complete:
            self.missing(target, params, accepted, path, slot)

    def parameter(self, target: Any, name: str, value: Any, declared: Parameter | None, path: Path) -> None:
        """One param: a recipe, a value, or a container of both."""
        annotation = declared.annotation if declared else Any
        slot = _slot(target, name, annotation)
        if slot is DATASET and names_sets(value):
            check_sets(self, value, annotation, path)
            return
        if is_recipe(value) or _is_half(value, name, annotation, slot):
            self.check(value, path, slot)
            if not is_recipe(value):
                return
        if value is None and declared is not None and declared.nullable:
            return
        if not (name.endswith("config") and value in PLACEHOLDERS):
            self.check_value(value, annotation, path)
        if not is_recipe(value):
            self.nested(value, path, slot if slot in (ANY, SCHEDULE) else ANY if slot.complete else OWNED)

    def check_value(self, value: Any, annotation: Any, path: Path) -> None:
        """A value against an annotation, and the keys of a map against a TypedDict or dataclass.

        What refers to nothing has no value yet, and is a fault already.
        """
        if problem := mismatch(value, annotation):
            if not any(place[: len(path)] == path for place in self.merged.unresolved):
                self.add("CFG03", f"{dotted(path)}: {problem}", path)
        elif isinstance(value, Mapping) and not is_recipe(value):
            shape = next((one for one in alternatives(annotation) if _fields(one)), None)
            if shape is not None:
                self.map_of(value, shape, path)

    def map_of(self, value: Mapping[str, Any], shape: Any, path: Path) -> None:
        """A map whose keys are those of a TypedDict or dataclass."""
        fields, required = _fields(shape), _required(shape)
        self.unknown_keys(value, fields, path, shape.__name__)
        for key, item in value.items():
            self.check_value(item, fields.get(key, Any), (*path, key))
        for key in sorted(required - set(value)):
            self.add("CFG03", f"{dotted(path)}: the setting {key} is missing", path)

    def missing(self, target: Any, params: Mapping[str, Any], accepted: Accepted, path: Path, slot: Slot) -> None:
        for name, parameter in accepted.parameters.items():
            if parameter.required and name not in params and name not in slot.supplied:
                fix = "--data_root DIR" if name == "data_root" else f"{dotted((*path, name))}=..."
                self.add(
                    "CFG03",
                    f"the setting {dotted((*path, name))} is missing",
                    path,
                    why=f"{definition(target)} cannot be built without it",
                    fix=fix,
                )

    def nested(self, value: Any, path: Path, slot: Slot) -> None:
        """Recipes anywhere inside a value, at any depth."""
        if _is_without_target(value):
            self.no_recipe(value, path, slot)
            return
        items: Iterable[tuple[str, Any]] = ()
        if isinstance(value, Mapping):
            items = value.items()
        elif isinstance(value, list):
            items = ((str(index), item) for index, item in enumerate(value))
        for key, item in items:
            if is_recipe(item):
                self.check(item, (*path, key), slot_of_parameter(key, slot))
            else:
                self.nested(item, (*path, key), slot)

    def dataloader(self, params: Any, path: Path) -> None:
        if params is None:
            return
        if problem := mismatch(params, Mapping[str, Any]):
            self.add("CFG03", f"{dotted(path)}: {problem}", path)
            return
        loader = target_at("torch.utils.data.DataLoader")
        self.unknown_keys(params, accepted_by(loader).parameters, path, definition(loader))

    def accepted(self, target: Any, path: Path) -> Accepted:
        try:
            return accepted_by(target)
        except Fault as fault:
            self.add(fault.id, fault.what, path, why=fault.why, fix=fault.fix)
            return Accepted({}, anything=True)

    def unknown_keys(self, value: Mapping[str, Any], known: Iterable[str], path: Path, owner: str) -> None:
        """A fault for each key of `value` that `owner` does not take."""
        names = list(known)
        for key in value:
            if key not in names:
                self.add(
                    "CFG03",
                    f"unknown setting {dotted((*path, key))}",
                    (*path, key),
                    why=f"{owner} takes: {', '.join(names) or 'nothing'}",
                    fix=self.respelt(key, names, path),
                )

    def respelt(self, key: str, names: Iterable[str], path: Path) -> str:
        """What to write instead of a misspelt key, in the form in which it was given."""
        near = nearest(key, names)
        if near is None:
            return ""
        if self.merged.where((*path, key)) != COMMAND_LINE:
            return f"did you mean {near}?"
        return f"{dotted((*path, near))}={self.written((*path, key))}"

    def written(self, path: Path) -> str:
        value = self.value_at(path)
        return value if isinstance(value, str) else shown(value)

    def value_at(self, path: Path) -> Any:
        value: Any = self.merged.config
        for key in path:
            value = value[int(key)] if isinstance(value, list) else value.get(key)
            if not isinstance(value, list | Mapping):
                return value
        return value

    def add(self, id: str, what: str, path: Path, *, why: str = "", fix: str = "", full: bool = False) -> None:
        """Note a fault; with `full` its place is given by setting and line, else by line alone."""
        place = self.merged.where(path)
        if place == COMMAND_LINE and isinstance(self.value_at(path), str | int | float):
            place = f"{COMMAND_LINE} ({dotted(path)}={self.written(path)})"
        elif full and place:
            place = f"{dotted(path)}  ({place})"
        self.faults.append(Fault(id, what, where=place or dotted(path), why=why, fix=fix))


def dotted(path: Path) -> str:
    return ".".join(path)


def _is_without_target(value: Any) -> bool:
    return isinstance(value, Mapping) and "params" in value and "target" not in value


def _is_half(value: Any, name: str, annotation: Any, slot: Slot) -> bool:
    """Whether a map without a target stands where nothing but a recipe can."""
    if not isinstance(value, Mapping):
        return False
    only_recipes = all(one in (Recipe, type(None)) for one in alternatives(annotation))
    return slot is DATASET or (name.endswith("_config") and only_recipes) or _is_without_target(value)


def _slot(target: Any, name: str, annotation: Any) -> Slot:
    """What a recipe in parameter `name` of `target` may be, by its name and its annotation."""
    if name in DATASETS and "LightningDataModule" in {base.__name__ for base in getattr(target, "__mro__", ())}:
        return DATASET
    if name.endswith("config"):
        return slot_of_parameter(name, OWNED)
    if name == "schedulers" and is_torch_schedule(target):
        return SCHEDULE
    if built_by_owner(target, name, target_at) or Recipe in alternatives(annotation):
        return OWNED
    choices = [one for one in alternatives(annotation) if one is not type(None)]
    return (slot_of_annotation(choices[0]) if len(choices) == 1 else None) or ANY


def _fields(shape: Any) -> dict[str, Any]:
    if typing.is_typeddict(shape) or (inspect.isclass(shape) and dataclasses.is_dataclass(shape)):
        return typing.get_type_hints(shape)
    return {}


def _required(shape: Any) -> frozenset[str]:
    return frozenset(getattr(shape, "__required_keys__", ()))
