"""Recipes: `{target, params}` maps of a YAML, and how they become objects."""

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ldm.errors import Fault

Recipe = Mapping[str, Any]
"""A map with `target` (an import path) and `params`: an object not yet built. A parameter so annotated, or whose name
ends in `config`, receives the recipe itself, because its owner builds it later."""


def is_recipe(value: object) -> bool:
    return isinstance(value, Mapping) and "target" in value


def get_obj_from_str(path: str) -> Any:
    """The object at a dotted import path, such as `torch.nn.Identity` or `package.module.Class.method`.

    Raises `Fault` CFG04 if no part of the path is a module or the module has no such attribute. An error inside the
    module itself (a broken import of its own) is raised as it is.
    """
    names = path.split(".")
    if not all(name.isidentifier() for name in names):
        raise Fault("CFG04", f"cannot load target {path}", why="it is no import path such as package.module.Class")
    for size in range(len(names) - 1, 0, -1):
        module_name = ".".join(names[:size])
        try:
            found = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
                continue
            raise
        for name in names[size:]:
            if not hasattr(found, name):
                raise Fault("CFG04", f"cannot load target {path}", why=f"{module_name} has no attribute {name!r}")
            found = getattr(found, name)
        return found
    raise Fault("CFG04", f"cannot load target {path}", why=f"there is no module {names[0]!r} on the import path")


def built_by_owner(target: Callable[..., Any], name: str) -> bool:
    """Whether parameter `name` of `target` takes a recipe itself instead of the object that it describes."""
    if name.endswith("config"):
        return True
    try:
        parameter = inspect.signature(target).parameters.get(name)
    except (TypeError, ValueError):  # a few C callables have no signature
        return False
    return parameter is not None and (
        "Recipe" in parameter.annotation
        if isinstance(parameter.annotation, str)
        else _mentions_recipe(parameter.annotation)
    )


def _mentions_recipe(annotation: object) -> bool:
    return annotation == Recipe or Recipe in getattr(annotation, "__args__", ())


def instantiate_from_config(config: Recipe, *args: Any, **extra: Any) -> Any:
    """Build what a recipe describes: `target(*args, **params, **extra)`.

    Recipes nested in `params` are built first, at any depth, except those that the target's owner builds itself
    (see `built_by_owner`). The two placeholders of CompVis for an absent part give None. A ValueError, which is what a
    constructor has against a value that it was given, becomes `Fault` CFG08.
    """
    if config in ("__is_first_stage__", "__is_unconditional__"):
        return None
    if not is_recipe(config):
        raise Fault("CFG04", "a recipe needs a `target`", why=f"got {config!r}")
    target = get_obj_from_str(config["target"])
    params = dict(config.get("params") or {})
    built = {name: value if built_by_owner(target, name) else _build(value) for name, value in params.items()}
    try:
        return target(*args, **built, **extra)
    except ValueError as error:
        given = ", ".join(
            f"{name}={value!r}" for name, value in params.items() if not isinstance(value, Mapping | list)
        )
        what = f"{config['target']} cannot be built: {error}"
        raise Fault("CFG08", what, why=f"its params are {given}" if given else "") from error


def _build(value: Any) -> Any:
    if is_recipe(value):
        return instantiate_from_config(value)
    if isinstance(value, Mapping):
        return {key: _build(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_build(item) for item in value]
    return value
