"""Whether a value read from YAML fits a type annotation."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union

SEQUENCES = (
    list,
    tuple,
    set,
    frozenset,
    collections.abc.Sequence,
    collections.abc.Iterable,
    collections.abc.Collection,
    collections.abc.Set,
)
_OURS = ("ldm", "lun")
MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


def mismatch(value: Any, annotation: Any) -> str | None:
    """`expected int, got '64'`, or None where `value` fits or `annotation` says nothing that could be checked.

    Recipes inside lists and maps fit anything: they are checked where they are found.
    """
    if fits(value, annotation):
        return None
    text = f"expected {described(annotation)}, got {shown(value)}"
    if any(map(is_built, alternatives(annotation))):
        return text + " (an object is written as a recipe: target and params)"
    if isinstance(value, bool) and any(choice is str for choice in alternatives(annotation)):
        return text + " (YAML reads a bare yes, no, on or off so: put it in quotes)"
    return text


def fits(value: Any, annotation: Any) -> bool:
    """Whether `value` can stand where `annotation` does."""
    if isinstance(value, Mapping) and "target" in value:
        return not any(annotation is scalar for scalar in (int, float, bool, str))
    origin = typing.get_origin(annotation)
    if origin in (Union, types.UnionType):
        return any(fits(value, choice) for choice in typing.get_args(annotation))
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in typing.get_args(annotation))
    if origin is typing.Annotated:
        return fits(value, typing.get_args(annotation)[0])
    if annotation is None or annotation is type(None):
        return value is None
    if annotation in (bool, int, float, str):
        return _fits_scalar(value, annotation)
    container = origin or annotation
    if container in SEQUENCES:
        return isinstance(value, list) and _fits_entries(value, container, typing.get_args(annotation))
    if container in MAPS or typing.is_typeddict(annotation):
        return isinstance(value, Mapping) and _fits_values(value, typing.get_args(annotation))
    if container is collections.abc.Callable or container is type:
        return value is not None and not isinstance(value, (bool, int, float, str, list, Mapping))
    return not inspect.isclass(annotation) or _may_stand_for(value, annotation)


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the annotation alone."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        return tuple(one for choice in typing.get_args(annotation) for one in alternatives(choice))
    return (annotation,)


def described(annotation: Any) -> str:
    """An annotation in the words of a YAML file: `int or null`, `'eps' or 'v'`, `a list of float`."""
    words: list[str] = []
    for choice in alternatives(annotation):
        literal = typing.get_origin(choice) is Literal
        words += map(shown, typing.get_args(choice)) if literal else [_described(choice)]
    return " or ".join(dict.fromkeys(words))


def shown(value: Any) -> str:
    """A value as a person would write it: text in quotes, true, null, containers by their kind."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "a map"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _fits_scalar(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)


def _may_stand_for(value: Any, kind: type) -> bool:
    """A number is never an object of a class; text and containers may be what a library turns into one.

    Ours turn nothing but the fields of a dataclass into an object: all others are built by a recipe.
    """
    if kind in (Any, object):
        return True
    if is_built(kind):
        return dataclasses.is_dataclass(kind) and isinstance(value, Mapping)
    return getattr(kind, "_is_protocol", False) or (value is not None and not isinstance(value, (bool, int, float)))


def is_built(kind: Any) -> bool:
    """Whether it is a class or protocol of ours, whose objects only a recipe makes."""
    ours = inspect.isclass(kind) and kind.__module__.partition(".")[0] in _OURS
    return ours and not typing.is_typeddict(kind) and not issubclass(kind, (str, enum.Enum))


def _fits_entries(value: list[Any], container: Any, given: tuple[Any, ...]) -> bool:
    if not given:
        return True
    if is_of_fixed_length(container, given):
        return len(value) == len(given) and all(map(fits, value, given))
    return all(_fits_entry(entry, given[0]) for entry in value)


def is_of_fixed_length(container: Any, given: tuple[Any, ...]) -> bool:
    """`tuple[int]` is not counted: libraries write it for any number of entries."""
    return container is tuple and len(given) > 1 and given[-1] is not Ellipsis


def _fits_values(value: Mapping[str, Any], given: tuple[Any, ...]) -> bool:
    return len(given) != 2 or all(_fits_entry(entry, given[1]) for entry in value.values())


def _fits_entry(value: Any, annotation: Any) -> bool:
    """Numbers may stand for text inside lists and maps, where they are tags such as `1` or `2022`."""
    if annotation is str and isinstance(value, (int, float)) and not isinstance(value, bool):
        return True
    return fits(value, annotation)


def _described(annotation: Any) -> str:
    origin, given = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is None or annotation is type(None):
        return "null"
    if origin is typing.Annotated:
        return described(given[0])
    container = origin or annotation
    if container in SEQUENCES:
        if is_of_fixed_length(container, given):
            return f"a list of {len(given)}: {', '.join(described(entry) for entry in given)}"
        return f"a list of {described(given[0])}" if given else "a list"
    if container in MAPS or typing.is_typeddict(annotation):
        return "a map"
    if container is collections.abc.Callable:
        return "a recipe (target and params)"
    return str(getattr(annotation, "__name__", annotation))
