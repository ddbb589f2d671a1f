"""Checking `sets: {NAME: recipe}` in the place of one recipe for a dataset."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lun.config.reading.yaml_tree import Path
from lun.config.schema import alternatives, mismatch
from lun.config.slots import SET

if TYPE_CHECKING:
    from lun.config.recipes import RecipeCheck

OF_A_RECIPE = ("target", "params")


def names_sets(value: Any) -> bool:
    """Whether several sets stand where a recipe may."""
    return isinstance(value, Mapping) and "sets" in value


def check_sets(check: RecipeCheck, value: Mapping[str, Any], annotation: Any, path: Path) -> None:
    """Note what is wrong with several sets in a parameter that is annotated so; with all of them where it is not."""
    shape = next((one for one in alternatives(annotation) if "sets" in _keys(one)), None)
    place = ".".join(path)
    if shape is None:
        why = "training mixes several sets; this place reads each picture once"
        check.add("CFG03", f"{place} takes no sets", (*path, "sets"), why=why, fix=f"{place}.target=IMPORT.PATH")
        return
    keys = _keys(shape)
    check.unknown_keys(value, (*keys, *OF_A_RECIPE), path, "several sets")
    check.dataloader(value.get("dataloader_params"), (*path, "dataloader_params"))
    if "epoch" in value:
        check.check_value(value["epoch"], keys["epoch"], (*path, "epoch"))
    if problem := mismatch(value["sets"], Mapping[str, Any]):
        check.add("CFG03", f"{place}.sets: {problem}", (*path, "sets"), fix="sets: {NAME: {target: ..., params: ...}}")
        return
    of_one = _keys(typing.get_args(keys["sets"])[1])
    for name, one in value["sets"].items():
        if one is not None:
            _check_set(check, one, of_one, (*path, "sets", name))


def _check_set(check: RecipeCheck, one: Any, keys: Mapping[str, Any], path: Path) -> None:
    if not isinstance(one, Mapping):
        check.no_recipe(one, path, SET)
        return
    check.unknown_keys(one, keys, path, "a set")
    for key in one.keys() & keys.keys() - set(OF_A_RECIPE):
        if one[key] is not None:
            check.check_value(one[key], keys[key], (*path, key))
    check.check({key: one[key] for key in OF_A_RECIPE if key in one}, path, SET)


def _keys(shape: Any) -> dict[str, Any]:
    return typing.get_type_hints(shape) if typing.is_typeddict(shape) else {}
