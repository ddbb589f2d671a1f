"""Recipes: `{target, params}` maps of a YAML, and how they become objects."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ldm.admission import PROJECT, admitted, definition, get_obj_from_str
from ldm.errors import Fault

__all__ = ["Recipe", "built_by_owner", "get_obj_from_str", "instantiate_from_config", "is_recipe"]

NETWORKS = "ldm.modules."

Recipe = Mapping[str, Any]
"""A map with `target` (an import path) and `params`: an object not yet built. A parameter so annotated, or whose name
ends in `config`, receives the recipe itself, because its owner builds it later."""


def is_recipe(value: object) -> bool:
    return isinstance(value, Mapping) and "target" in value


def setting_of(recipe: Recipe, name: str) -> Any:
    """The value that a recipe gives for parameter `name`: its own default where the recipe does not say; else None."""
    parameter = _parameter(get_obj_from_str(recipe["target"]), name)
    if parameter is None:
        return None
    return (recipe.get("params") or {}).get(name, None if parameter.default is parameter.empty else parameter.default)


def _parameter(target: Callable[..., Any], name: str) -> inspect.Parameter | None:
    """Parameter `name` of a callable, or of the one that it hands further keys on to (its attribute `accepts`)."""
    known, further = inspect.signature(target).parameters, getattr(target, "accepts", None)
    if name in known or not isinstance(further, str):
        return known.get(name)
    return _parameter(get_obj_from_str(further), name)


def built_by_owner(target: Callable[..., Any], name: str, find: Callable[[str], Any] = get_obj_from_str) -> bool:
    """Whether parameter `name` of `target` takes a recipe itself instead of the object that it describes.

    A class that hands keys on says to which other one in its attribute `accepts`, which `find` looks up.
    """
    if name.endswith("config"):
        return True
    try:
        parameter = inspect.signature(target).parameters.get(name)
    except (TypeError, ValueError):  # a few C callables have no signature
        return False
    if parameter is None:
        further = getattr(target, "accepts", None)
        return isinstance(further, str) and built_by_owner(find(further), name, find)
    if isinstance(parameter.annotation, str):
        return "Recipe" in parameter.annotation
    return _mentions_recipe(parameter.annotation)


def _mentions_recipe(annotation: object) -> bool:
    return annotation == Recipe or Recipe in getattr(annotation, "__args__", ())


def instantiate_from_config(config: Recipe, *args: Any, **extra: Any) -> Any:
    """Build what a recipe describes: `target(*args, **params, **extra)`.

    Recipes nested in `params` are built first, at any depth, except those that the target's owner builds itself
    (see `built_by_owner`). The two placeholders of CompVis for an absent part give None. A ValueError, which is what a
    constructor has against a value that it was given, becomes `Fault` CFG08, and so do params that are missing or too
    many. What may not be built from a configuration is refused (see `ldm.admission`), whoever wrote it: `Fault` CFG04.
    """
    if config in ("__is_first_stage__", "__is_unconditional__"):
        return None
    if not is_recipe(config):
        raise Fault("CFG04", "a recipe needs a `target`", why=f"got {config!r}")
    target = admitted(config["target"])
    params = dict(config.get("params") or {})
    built = {name: value if built_by_owner(target, name) else _build(value) for name, value in params.items()}
    if misfit := _misfit(target, args, {**built, **extra}):
        raise _refused(config["target"], params, misfit) from misfit
    try:
        return target(*args, **built, **extra)
    except _refusals(target) as error:
        raise _refused(config["target"], params, error) from error


def _misfit(target: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]) -> TypeError | None:
    """What Python says of a call that lacks an argument, or has one too many; None where it has nothing to say."""
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # a few C callables have none
        return None
    try:
        signature.bind(*args, **given)
    except TypeError as error:
        return error
    return None


def _refusals(target: Callable[..., Any]) -> tuple[type[Exception], ...]:
    """With what a constructor may be against its values; those of libraries raise whatever they like."""
    home = definition(target)
    of_library = (
        ValueError,
        TypeError,
        ArithmeticError,
        AttributeError,
        LookupError,
        AssertionError,
        NotImplementedError,
    )
    if home.startswith(NETWORKS):
        return (*of_library, RuntimeError)  # which they hand their params to; layers of sizes that no layer can have
    if home.startswith(tuple(f"{name}." for name in PROJECT)):
        return (ValueError, ArithmeticError)
    return of_library


def _refused(target: str, params: Mapping[str, Any], error: Exception) -> Fault:
    given = ", ".join(f"{name}={value!r}" for name, value in params.items() if not isinstance(value, Mapping | list))
    said = str(error).partition("\nException raised from")[0]  # after which torch prints its own stack
    what = f"{target} cannot be built: {said or type(error).__name__}"
    return Fault("CFG08", what, why=f"its params are {given}" if given else "")


def _build(value: Any) -> Any:
    if is_recipe(value):
        return instantiate_from_config(value)
    if isinstance(value, Mapping):
        return {key: _build(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_build(item) for item in value]
    return value
