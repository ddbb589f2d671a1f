"""Plain values out of texts that anybody may have written, such as what lies in a run directory that was shared."""

import json
import stat
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
LARGEST = 64 << 20  # bytes of a file that describes something


def read_json(path: Path) -> Any:
    """The value of a JSON file. Raises OSError as it comes, and ValueError for what is none, or no ordinary file."""
    return parse_json(read_plain_text(path))


def read_plain_text(path: Path) -> str:
    """The text of an ordinary file of reasonable size. OSError and ValueError as above."""
    if (size := require_ordinary(path)) > LARGEST:
        raise ValueError(f"it has {size:,} bytes; {LARGEST:,} are read")
    return path.read_text(encoding="utf-8-sig")


def require_ordinary(path: Path) -> int:
    """Bytes of a file that can be read to its end: opening a pipe would wait for somebody to write into it.

    Raises OSError as it comes, and ValueError for a folder, a pipe, a socket or a device.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is no ordinary file")
    return status.st_size


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ValueError for whatever cannot be read as one, however it was made."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def record_of(cls: type[T], rows: object) -> T:
    """A dataclass from a stored map, each value of its field's type; keys that it has no field for are an error.

    Raises ValueError that names what does not fit, so that nothing of another type is met later, far from the file.
    """
    assert is_dataclass(cls)
    if not isinstance(rows, Mapping):
        raise ValueError(f"it is a {type(rows).__name__}, not a map")
    hints = get_type_hints(cls)
    known = {entry.name: hints[entry.name] for entry in fields(cls)}
    for name, value in rows.items():
        if name not in known:
            raise ValueError(f"{name!r} is no field of it")
        if not fits(value, known[name]):
            raise ValueError(f"{name} is {str(value)[:40]!r}")
    try:
        return cls(**rows)
    except TypeError as error:  # a field without a value
        raise ValueError(str(error)) from error


def fits(value: object, hint: Any) -> bool:
    """Whether a plain value has the type of an annotation: scalars, unions, literals, maps, lists and tuples of them.

    A bool is no number; an int is a float, unless it is larger than any.
    """
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return value in inner
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
    if origin in (list, tuple):
        return isinstance(value, origin) and _each_fits(value, inner)
    if hint in (int, float):
        return _is_number(value, hint)
    return isinstance(value, NoneType if hint is None else hint)


def _is_number(value: object, hint: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return hint is float and isinstance(value, float)
    return hint is int or abs(value) <= sys.float_info.max


def _each_fits(values: list[Any] | tuple[Any, ...], inner: tuple[Any, ...]) -> bool:
    if isinstance(values, tuple) and not (len(inner) == 2 and inner[1] is ...):
        return len(values) == len(inner) and all(map(fits, values, inner))
    return all(fits(value, inner[0]) for value in values)
