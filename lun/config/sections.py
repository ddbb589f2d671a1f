"""Checking the `lightning` section: Trainer arguments, callbacks and loggers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldm.util import is_recipe
from lun.config.compat.lightning1_trainer import REMOVED
from lun.config.recipes import RecipeCheck
from lun.config.schema import shown
from lun.config.signature import accepted_by, target_at
from lun.config.slots import ANY, CALLBACK, LOGGER, Slot
from lun.config.trainer_arguments import trainer_arguments
from lun.config.trainer_values import TYPES, refusal

# What the program hands to the Trainer by itself, and where to say it instead.
ELSEWHERE = {
    "callbacks": "name it below lightning.callbacks",
    "logger": "name it below lightning.logger; lightning.logger.<name>=null removes one",
    "default_root_dir": "--logdir DIR",
}
TRAINER = "lightning.pytorch.Trainer"
DEEPSPEED = "lun.strategies.deepspeed.DeepSpeed"
SECTIONS = ("trainer", "callbacks", "logger", "deepspeed")


def check_lightning(section: Any, recipes: RecipeCheck) -> None:
    """The whole section; each part of it may be left out."""
    if section is None:
        return
    if not isinstance(section, Mapping):
        recipes.add("CFG03", f"lightning: expected a map, got {shown(section)}", ("lightning",))
        return
    recipes.unknown_keys(section, SECTIONS, ("lightning",), "this section")
    _check_trainer(section.get("trainer"), recipes)
    _check_named(section.get("callbacks"), "callbacks", CALLBACK, recipes)
    _check_named(section.get("logger"), "logger", LOGGER, recipes)
    if _check_is_map(section.get("deepspeed"), "deepspeed", recipes):
        recipes.params(target_at(DEEPSPEED), section["deepspeed"], ("lightning", "deepspeed"), ANY)


def _check_named(part: Any, name: str, slot: Slot, recipes: RecipeCheck) -> None:
    """Recipes by name; null removes a default."""
    if not _check_is_map(part, name, recipes):
        return
    for key, value in part.items():
        if value is not None:
            recipes.check(value, ("lightning", name, key), slot)


def _check_trainer(part: Any, recipes: RecipeCheck) -> None:
    if not _check_is_map(part, "trainer", recipes):
        return
    path = ("lightning", "trainer")
    known = {key: value for key, value in part.items() if key not in REMOVED and key not in ELSEWHERE}
    for key in sorted(part.keys() & ELSEWHERE.keys()):
        recipes.add("CFG03", f"lightning.trainer.{key} is set elsewhere", (*path, key), fix=ELSEWHERE[key])
    for key in sorted(part.keys() & REMOVED.keys()):
        recipes.add(
            "CFG05",
            f"lightning.trainer.{key} is not an argument of lightning.Trainer 2.6",
            (*path, key),
            why=REMOVED[key].why,
            fix=REMOVED[key].fix,
        )
    recipes.unknown_keys(known, sorted(trainer_arguments()), path, "lightning.Trainer")
    declared = accepted_by(target_at(TRAINER)).parameters
    for key, value in known.items():
        if key in declared:
            _check_argument(key, value, TYPES.get(key, declared[key].annotation), known, recipes)


def _check_argument(key: str, value: Any, annotation: Any, beside: Mapping[str, Any], recipes: RecipeCheck) -> None:
    """One argument of the Trainer: of its type, and with an effect."""
    path = ("lightning", "trainer", key)
    if idle := refusal(key, value, beside):
        what = f"lightning.trainer.{key}: {shown(value)} has no effect here"
        recipes.add("CFG05", what, path, why=idle.why, fix=idle.fix)
    elif is_recipe(value):
        recipes.check(value, path, ANY)
    else:
        recipes.check_value(value, annotation, path)
        recipes.nested(value, path, ANY)


def _check_is_map(part: Any, name: str, recipes: RecipeCheck) -> bool:
    if part is not None and not isinstance(part, Mapping):
        recipes.add("CFG03", f"lightning.{name}: expected a map, got {shown(part)}", ("lightning", name))
    return isinstance(part, Mapping)
