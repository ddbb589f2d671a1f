"""One description of a picture, as boards and tools write it, into one row of the table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from lun.data.captions import one_line
from lun.data.metadata.table import NO_PATH, OUTSIDE, UNREADABLE, Rows

PATH_KEYS = ("path", "file_name", "image", "file")
TEXT_KEYS = ("text", "caption", "prompt", "captions")
DATE_KEYS = ("date", "created_at")


def json_reader() -> Callable[[bytes], Any]:
    """The fastest reader of JSON that is installed; all raise ValueError for what is none."""
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
        return json.loads
    reader: Callable[[bytes], Any] = orjson.loads
    return reader


def add_record(rows: Rows, record: Any, source: str, line: int = 0, folder: str = "") -> None:
    """Add what `record` says; its path counts from `folder`. What is wrong with it is noted in its row."""
    if not isinstance(record, Mapping):
        rows.add("", source, line=line, problem=UNREADABLE)
        return
    given = _first(record, PATH_KEYS)
    if not isinstance(given, str) or not given:
        rows.add("", source, line=line, problem=NO_PATH)
        return
    path = inside(given, folder)
    if path is None:
        rows.add(given, source, line=line, problem=OUTSIDE)
        return
    width = _number(_first(record, ("width", "image_width")))
    height = _number(_first(record, ("height", "image_height")))
    aspect = _number(record.get("aspect_ratio"))
    if aspect is None and width and height:
        aspect = width / height
    rating = record.get("rating")
    rows.add(
        path,
        source,
        _texts(_first(record, TEXT_KEYS)),
        tags_of(record.get("tags")),
        score=_score(record.get("score")),
        aspect=aspect,
        width=_whole(width),
        height=_whole(height),
        date=_date(_first(record, DATE_KEYS)),
        rating=rows.number(str(rating)) if rating is not None else None,
        repeats=_whole(_number(record.get("repeats"))),
        weight=_number(record.get("weight")),
        line=line,
    )


def inside(path: str, folder: str = "") -> str | None:
    """`path` below `folder` in plain form, None where it would leave the root: absolute, or through `..`."""
    plain = path.replace("\\", "/")
    if plain.startswith("/") or plain[1:3] == ":/" or "\0" in plain:
        return None
    if not folder and ".." not in plain and "./" not in plain and "//" not in plain:
        return plain
    parts = PurePosixPath(folder, plain).parts
    return None if ".." in parts else "/".join(parts)


def tags_of(value: Any) -> list[str]:
    """Tags from a list, or from text with commas, else with spaces; numbers and truth values become words."""
    if isinstance(value, str):
        value = value.split(",") if "," in value else value.split()
    if not isinstance(value, list):
        return []
    if not all(isinstance(tag, str) for tag in value):
        value = [_word(tag) for tag in value]
    return [tag for tag in map(str.strip, value) if tag]


def _word(tag: Any) -> str:
    if isinstance(tag, bool):
        return "true" if tag else "false"
    return str(tag) if isinstance(tag, str | int | float) else ""


def _texts(value: Any) -> str:
    """One caption to a line."""
    several = value if isinstance(value, list) else [value]
    return "\n".join(text for text in (one_line(one) for one in several if isinstance(one, str)) if text)


def _first(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((record[name] for name in names if record.get(name) is not None), None)


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _whole(value: float | None) -> float | None:
    return float(int(value)) if value is not None and 0 <= value < 2**31 else None


def _score(value: Any) -> float | None:
    """A number, or the sum that some boards give as `total` beside ups and downs."""
    return _number(value.get("total") if isinstance(value, Mapping) else value)


def _date(value: Any) -> float | None:
    return seconds(value) if isinstance(value, str) else _number(value)


def seconds(text: str) -> float | None:
    """Seconds since 1970 of a date or time in ISO 8601; without a zone it is UTC. None where it is none."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
