"""What a target takes: its parameters with their annotations, as a checker needs them."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ldm.util import get_obj_from_str
from lun.config.declared.declarations import declared
from lun.config.declared.stand_ins import Unreadable

_OURS = ("ldm", "lun")
_USERS = "lun.local"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a target; `annotation` is `Any` where there is none or it cannot be resolved.

    `nullable`: its default is None, whatever its annotation says. `default` is None too where there is none.
    """

    annotation: Any
    required: bool
    nullable: bool = False
    default: Any = None


@dataclass(frozen=True)
class Accepted:
    """The parameters of a target by name; `anything` is set where further names cannot be judged from outside."""

    parameters: Mapping[str, Parameter]
    anything: bool = False


def accepted_by(target: Callable[..., Any]) -> Accepted:
    """What `target(**params)` takes.

    A class of ours that takes `**kwargs` is united with what it hands them to: the callable that `accepts` names in the
    class whose constructor it is, else its next base class with a constructor of its own.
    """
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):  # a few C callables have no signature
        return Accepted({}, anything=True)
    own = {
        name: parameter
        for name, parameter in signature.parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY)
    }
    hints = _hints(target)
    parameters = {name: _declared(parameter, hints.get(name, Any)) for name, parameter in own.items()}
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature.parameters.values()):
        return Accepted(parameters)
    further = _handed_on(target)
    if further is None:
        return Accepted(parameters, anything=not _is_ours(target))
    rest = accepted_by(further)
    return Accepted({**rest.parameters, **parameters}, rest.anything)


def target_at(named: str) -> Any:
    """The class or function at a path that the program itself wrote, as its source declares it if that says enough."""
    try:
        return declared(named)
    except Unreadable:
        return get_obj_from_str(named)


def _declared(parameter: inspect.Parameter, annotation: Any) -> Parameter:
    required = parameter.default is parameter.empty
    default = None if required else parameter.default
    return Parameter(annotation, required, not required and default is None, default)


def _handed_on(target: Callable[..., Any]) -> Callable[..., Any] | None:
    owner = _owner_of_init(target)
    named = getattr(owner, "__dict__", {}).get("accepts")
    if isinstance(named, str):
        return target_at(named)
    if not (inspect.isclass(target) and _is_ours(target)):
        return None
    bases = target.__mro__[target.__mro__.index(owner) + 1 :]
    return next((base for base in bases if "__init__" in vars(base) and base is not object), None)


def _owner_of_init(target: Callable[..., Any]) -> Any:
    """The class whose constructor `target` runs; `target` itself where it is no class."""
    if not inspect.isclass(target):
        return target
    return next((base for base in target.__mro__ if "__init__" in vars(base)), object)


def _is_ours(target: Callable[..., Any]) -> bool:
    module = getattr(target, "__module__", None) or ""
    return module.partition(".")[0] in _OURS and not f"{module}.".startswith(f"{_USERS}.")


def _hints(target: Callable[..., Any]) -> dict[str, Any]:
    function = target.__init__ if inspect.isclass(target) else target
    try:
        return typing.get_type_hints(function)
    except (NameError, AttributeError, TypeError, SyntaxError):  # a hint may name what exists for type checkers alone
        raw = getattr(function, "__annotations__", {})
        return {name: hint for name, hint in raw.items() if not isinstance(hint, str)}
