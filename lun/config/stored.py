"""The configuration that a run directory holds, which may have been made by anybody."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from lun.config.compat.sdxl_unconditional import keep_unconditional
from lun.config.compat.upgrade import upgrade
from lun.config.reading.load_layers import Merged
from lun.config.reading.yaml_files import read_text
from lun.config.reading.yaml_tree import parse
from lun.config.recipes import RecipeCheck
from lun.config.schema import mismatch
from lun.config.slots import MODEL
from lun.config.suggestions import raise_all


def read_stored(file: Path) -> dict[str, Any]:
    """The configuration in `resolved.yaml`, its model checked as one that a person writes: nothing is built.

    What stood for no caption is said also where the run is older than the choice. No other file is read on its behalf
    and nothing of the environment enters it. Raises `Fault` CFG02 where it is no configuration of a model, CFG03 to
    CFG05 for what is wrong with it, an ExceptionGroup of several.
    """
    node = parse(read_text(file), file.as_posix())
    config = node.plain()
    if not isinstance(config, dict) or not isinstance(config.get("model"), dict):
        raise Fault(
            "CFG02", f"{file} is not the configuration of a run", where=str(file), why="it has no `model` section"
        )
    merged, _, faults = upgrade(Merged(config, node.positions(), (file.as_posix(),)))
    merged = merged.replaced(keep_unconditional(merged.config, merged.config).config)
    recipes = RecipeCheck(merged)
    recipes.check(merged.config["model"], ("model",), MODEL)
    recipes.look_at_the_rest()
    raise_all([*faults, *recipes.faults])
    return merged.config


def stored_value(config: Mapping[str, Any], path: str, annotation: Any) -> Any:
    """The value at a place of a stored configuration, such as `a.b.c`; None where nothing, or null, stands there.

    Raises `Fault` CFG03 where it is no `annotation`, or where what lies above it is no map.
    """
    names = path.split(".")
    value: Any = config
    for depth, name in enumerate(names):
        value = value.get(name)
        last = depth == len(names) - 1
        if value is None:
            return None
        if problem := mismatch(value, annotation if last else Mapping[str, Any]):
            place = ".".join(names[: depth + 1])
            raise Fault("CFG03", f"{place}: {problem}", where=place)
    return value
