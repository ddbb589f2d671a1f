"""Stored texts give plain values of the wanted types, or a ValueError."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from ldm.plain import parse_json, read_json, record_of
from ldm.plain_yaml import entries_of_yaml, parse_yaml


@pytest.mark.parametrize("text", ["", "[", "[" * 100_000, "9" * 5000, '{"a":' * 50_000, "\x00", b"\xff"])
def test_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


def test_json_is_read_in_one_place_which_knows_how_it_can_fail() -> None:
    """`json` raises RecursionError beside ValueError, and whoever forgets that ends in a traceback."""
    root = Path(__file__).parents[3]
    files = [file for folder in ("ldm", "lun") for file in (root / folder).rglob("*.py")]
    reading = [file.name for file in files if re.search(r"\bjson\.loads?\(", file.read_text("utf-8"))]
    assert reading == ["plain.py"]


NO_YAML = [
    "a: &a [*a]",
    "[&a x, *a]",
    "!!timestamp foo",
    "0x_",
    "[" * 5000,
    "? [a]\n: b",
    "!!python/name:os.system",
    "a: '",
]


@pytest.mark.parametrize("text", NO_YAML)
def test_no_yaml_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_yaml(text)


def test_a_list_of_texts_is_read() -> None:
    assert parse_yaml("- a cat\n- {prompt: a dog, seed: 3}") == ["a cat", {"prompt": "a dog", "seed": 3}]


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.json")
    with pytest.raises(ValueError, match="ordinary"):
        read_json(tmp_path / "run.json")


@dataclass(frozen=True)
class Kept:
    name: str
    step: int | None = None
    scale: float = 1.0
    box: tuple[int, int] = (0, 0)
    counts: dict[str, int] = field(default_factory=dict)
    kind: Literal["a", "b"] = "a"


GOOD: dict[str, Any] = {"name": "x", "step": 3, "scale": 2, "box": (1, 2), "counts": {"a": 1}, "kind": "b"}


def test_a_record_has_the_types_of_its_fields() -> None:
    assert record_of(Kept, GOOD) == Kept("x", 3, 2, (1, 2), {"a": 1}, "b")


@pytest.mark.parametrize(
    "odd",
    [{"name": 1}, {"step": True}, {"step": "3"}, {"scale": "1"}, {"box": (1,)}, {"box": [1, 2]}, {"counts": {"a": "1"}}]
    + [{"counts": [1]}, {"kind": "c"}, {"kind": []}, {"other": 1}, {"scale": 10**400}, {"scale": True}, {"step": 1.0}],
)
def test_a_record_of_other_types_is_a_value_error(odd: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        record_of(Kept, GOOD | odd)


@pytest.mark.parametrize("rows", [None, [], "x", {}])
def test_what_is_no_record_is_a_value_error(rows: object) -> None:
    with pytest.raises(ValueError):
        record_of(Kept, rows)


def test_entries_of_a_list_are_known_with_their_lines_and_keys() -> None:
    assert entries_of_yaml("# cats\n- a cat\n\n- seed: 3\n  seed: 4\n") == [(2, []), (4, ["seed", "seed"])]
    assert entries_of_yaml("a: b") == []
