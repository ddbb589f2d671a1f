"""What stands in a declaration for things that its source does not say: compiled classes, methods, computed values."""

import types
from abc import ABCMeta
from enum import Enum
from typing import Any, NoReturn


class Unreadable(Exception):
    """The source alone does not say."""


class Computed(Enum):
    """A value that only the program itself computes."""

    VALUE = "computed"


class OpaqueType(ABCMeta):
    """The kind of what is compiled: nobody knows what it has."""

    def __getattr__(cls, name: str) -> Any:
        if Opaque in cls.__bases__ and not name.startswith("_"):
            raise Unreadable(f"{cls.__name__}.{name}")
        raise AttributeError(name)


class Opaque(metaclass=OpaqueType):
    """A base of what is compiled: it takes anything in brackets."""

    def __class_getitem__(cls, item: Any) -> type:
        return cls


class CompiledModule(types.ModuleType):
    """A module without a source in Python: whatever it is asked for is a class of that name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(self.__name__, name)


def stand_in(module: str, name: str) -> type:
    """A class of this name, for an annotation or a base that no source says more of."""
    return OpaqueType(name, (Opaque,), {"__module__": module})


def is_stand_in(value: Any) -> bool:
    """Whether it is such a class itself, and none that derives from one."""
    return isinstance(value, OpaqueType) and Opaque in value.__bases__


def refuse(*given: Any, **more: Any) -> NoReturn:
    """The body of every function that is only declared."""
    raise Unreadable("a function that is only declared")


def abstract(*given: Any, **more: Any) -> NoReturn:
    """The same of a method that a class leaves to others."""
    raise Unreadable("a function that is only declared")


abstract.__isabstractmethod__ = True  # type: ignore[attr-defined]
