"""One description of a picture, as boards and tools write it, into one row of the table."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

from ldm.plain import parse_json
from lun.data.metadata.caption_files import one_line
from lun.data.metadata.table_builder import (
    EMBEDDED,
    MOST_REPEATS,
    NO_PATH,
    NO_WORDS,
    ODD_REPEATS,
    OUTSIDE,
    UNREADABLE,
    Rows,
)

PATH_KEYS = ("path", "file_name", "image", "file")
TEXT_KEYS = ("text", "caption", "prompt", "captions")
FURTHER_KEYS = ("caption_2", "caption_3")
"""For the second and the third text encoder of a model."""
_OF_TEXT, _OF_FURTHER = frozenset(TEXT_KEYS), frozenset(FURTHER_KEYS)
_NUMERIC = (int, float, Decimal)
_GREATEST = 1e300
"""Not even infinity, nor what is no number, lies below."""
_GREATEST_SINGLE = 1e38
"""The same of a column in single precision."""


def json_reader() -> Callable[[bytes], Any]:
    """The fastest reader of JSON that is installed. All raise ValueError for what is none, and one of them
    RecursionError for what is nested too deeply."""
    try:
        import msgspec
    except ImportError:
        pass
    else:
        decoder: Callable[[bytes], Any] = msgspec.json.Decoder().decode
        return decoder
    try:
        import orjson
    except ImportError:
        return _plain_reader
    reader: Callable[[bytes], Any] = orjson.loads
    return reader


_raw_decode = json.JSONDecoder().raw_decode


def _plain_reader(data: bytes) -> Any:
    """`parse_json` without the detours of `json` for the common case: UTF-8 that holds nothing but one value."""
    try:
        text = data.decode()
        value, end = _raw_decode(text)
    except (ValueError, RecursionError):  # white space before it, a byte order mark, UTF-16, or no JSON
        return parse_json(data)
    return value if end == len(text) or text[end:].isspace() else parse_json(data)


def add_record(rows: Rows, record: Any, source: str, line: int = 0, folder: str = "") -> None:
    """Add what `record` says; its path counts from `folder`. What is wrong with it is noted in its row."""
    numbers: dict[str, float] = {"line": line} if line else {}
    if not isinstance(record, dict):
        rows.add("", source, numbers={**numbers, "problem": UNREADABLE})
        return
    given = _first(record, PATH_KEYS)
    if not isinstance(given, str) or not given:
        problem = EMBEDDED if isinstance(given, dict) else NO_PATH
        rows.add("", source, numbers={**numbers, "problem": problem})
        return
    path = inside(given, folder)
    if path is None:
        rows.add(given, source, numbers={**numbers, "problem": OUTSIDE})
        return
    _add_numbers(numbers, record)
    if not 0 <= numbers.get("repeats", 1) <= MOST_REPEATS or ("repeats" in record and "repeats" not in numbers):
        numbers = {"problem": ODD_REPEATS, "line": line}
    rating = record.get("rating")
    if rating is not None:
        numbers["rating"] = rows.number(str(rating))
    text = None if _OF_TEXT.isdisjoint(record) else _first(record, TEXT_KEYS)
    if text is None and record.get("tags") is None:
        numbers.setdefault("problem", NO_WORDS)
    further = "" if _OF_FURTHER.isdisjoint(record) else _further(record)
    rows.add(path, source, _texts(text) if text is not None else "", tags_of(record.get("tags")), numbers, further)


def _further(record: dict[str, Any]) -> str:
    """A line for each of `FURTHER_KEYS`, "" where none is given."""
    given = [record.get(key) for key in FURTHER_KEYS]
    lines = [one_line(text) if isinstance(text, str) else "" for text in given]
    return "\n".join(lines) if any(lines) else ""


def _add_numbers(numbers: dict[str, float], record: dict[str, Any]) -> None:
    """Those of the record that are sound."""
    for key in filter(_READ_AS.__contains__, record):
        name, read = _READ_AS[key]
        value = read(record[key])
        if value is not None:
            numbers[name] = value
    if "aspect" not in numbers and numbers.get("width") and numbers.get("height"):
        numbers["aspect"] = numbers["width"] / numbers["height"]


def inside(path: str, folder: str = "") -> str | None:
    """`path` below `folder` in plain form, None where it would leave the root: absolute, or through `..`."""
    plain = path.replace("\\", "/")
    if plain.startswith("/") or plain[1:3] == ":/" or "\0" in plain:
        return None
    if not folder and ".." not in plain and "./" not in plain and "//" not in plain:
        return plain
    parts = PurePosixPath(folder, plain).parts
    return None if ".." in parts else "/".join(parts)


def tags_of(value: Any) -> list[Any]:
    """Tags from a list, or from text with commas, else with spaces."""
    if isinstance(value, str):
        return value.split(",") if "," in value else value.split()
    return value if isinstance(value, list) else []


def _texts(value: Any) -> str:
    """One caption to a line."""
    several = value if isinstance(value, list) else [value]
    return "\n".join(text for text in (one_line(one) for one in several if isinstance(one, str)) if text)


def _first(record: dict[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        value = record.get(name)
        if value is not None:
            return value
    return None


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, _NUMERIC) and -_GREATEST < value < _GREATEST else None


def _single(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and abs(number) < _GREATEST_SINGLE else None


def _whole(value: Any) -> float | None:
    number = _number(value)
    return float(int(number)) if number is not None and 0 <= number < 2**31 else None


def _score(value: Any) -> float | None:
    """A number, or the sum that some boards give as `total` beside ups and downs."""
    return _number(value.get("total") if isinstance(value, dict) else value)


def _date(value: Any) -> float | None:
    """Of text, seconds, or, as parquet has them, a day or moment."""
    return seconds(str(value)) if isinstance(value, str | date) else _number(value)


def seconds(text: str) -> float | None:
    """Seconds since 1970 of a date or time in ISO 8601; without a zone it is UTC. None where it is none."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


_READ_AS: dict[str, tuple[str, Callable[[Any], float | None]]] = {
    "score": ("score", _score),
    "aspect_ratio": ("aspect", _single),
    "width": ("width", _whole),
    "image_width": ("width", _whole),
    "height": ("height", _whole),
    "image_height": ("height", _whole),
    "date": ("date", _date),
    "created_at": ("date", _date),
    "repeats": ("repeats", _whole),
    "weight": ("weight", _single),
}
"""key of a description -> column, and how its value is read"""

READ_KEYS = frozenset({*PATH_KEYS, *TEXT_KEYS, *FURTHER_KEYS, "tags", "rating", *_READ_AS})
"""All that is looked at in a description."""
