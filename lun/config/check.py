"""Every fault of a merged configuration at once, before anything is built."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

from ldm.errors import Fault
from lun.config.reading.load_layers import COMMAND_LINE, Merged
from lun.config.recipes import Path, RecipeCheck, dotted
from lun.config.sections import check_lightning
from lun.config.slots import DATA, MODEL
from lun.config.suggestions import nearest
from lun.config.top_level import PLACES, TOP_LEVEL

SCALE_LR = bool | Literal["none", "linear", "sqrt"] | None


def check(merged: Merged) -> list[Fault]:
    """All faults of the configuration; nothing is called.

    What targets take is read from their sources. Those that only an import shows, which may take seconds, are
    looked at where nothing else is wrong.
    """
    recipes = RecipeCheck(merged)
    for name, slot in (("model", MODEL), ("data", DATA)):
        value = merged.config.get(name)
        if value is None:
            recipes.add(
                "CFG03",
                f"the configuration has no `{name}` section",
                (name,),
                fix="add a YAML that has one to --base, such as those in configs/",
            )
        else:
            recipes.check(value, (name,), slot)
    _check_numbers(merged, recipes)
    _check_sections(merged, recipes)
    _check_finite(merged.config, (), recipes)
    check_lightning(merged.config.get("lightning"), recipes)
    recipes.look_at_the_rest()
    return recipes.faults


def warnings(merged: Merged) -> list[str]:
    """One sentence for each top-level key that nothing reads; keys that start with `x-` are free."""
    notes = []
    for key in _unread(merged):
        if key not in PLACES:
            near = nearest(key, TOP_LEVEL)
            hint = f"did you mean {near}?" if near else f"write x-{key} for a section that only holds anchors"
            notes.append(f"{merged.where((key,))}: the top-level section {key} is not read; {hint}")
    return notes


def _check_sections(merged: Merged, recipes: RecipeCheck) -> None:
    """An old file may hold more than is read; who typed a setting, or copied a section without its place, means it."""
    for key in _unread(merged):
        if merged.where((key,)) == COMMAND_LINE:
            recipes.unknown_keys({key: None}, TOP_LEVEL, (), "the configuration")
        elif key in PLACES:
            recipes.add(
                "CFG03",
                f"the section {key} stands at the top of a file, where nothing reads it",
                (key,),
                fix=f"write it as {PLACES[key]}, below the sections of that name; x-{key} if it only holds anchors",
            )


def _unread(merged: Merged) -> list[str]:
    return [key for key in merged.config if key not in TOP_LEVEL and not key.startswith("x-")]


def _check_numbers(merged: Merged, recipes: RecipeCheck) -> None:
    model = merged.config.get("model")
    if isinstance(model, Mapping):
        recipes.check_value(model.get("base_learning_rate"), float | None, ("model", "base_learning_rate"))
        recipes.check_value(model.get("scale_lr"), SCALE_LR, ("model", "scale_lr"))
    recipes.check_value(merged.config.get("seed"), int | None, ("seed",))


def _check_finite(value: Any, path: Path, recipes: RecipeCheck) -> None:
    """Infinity and what is no number are no setting's value, wherever they stand."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_finite(inner, (*path, str(key)), recipes)
    elif isinstance(value, list):
        for inner in value:
            _check_finite(inner, path, recipes)
    elif isinstance(value, float) and not math.isfinite(value):
        recipes.add("CFG03", f"{dotted(path)}: expected a finite number, got {value}", path)
