"""Answers that a start keeps for the next one."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldm import remembered as module
from ldm.remembered import MOST_FILES, remembered


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path_factory.mktemp("place") / "cache"
    monkeypatch.setenv("LUN_CACHE", str(place))
    return place


class Asked:
    """Counts how often it has to find an answer."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> int:
        self.times += 1
        return self.times


def test_the_same_question_is_answered_once() -> None:
    asked = Asked()
    settings = {"target": "ldm.modules.Any", "params": {"size": 3, "of": [1, None]}}
    assert [remembered("size", settings, asked) for _ in range(3)] == [1, 1, 1]
    assert remembered("size", {**settings, "params": {"size": 4}}, asked) == 2
    assert remembered("shape", settings, asked) == 3
    assert remembered("size", dict(reversed(settings.items())), asked) == 1


@pytest.mark.parametrize("answer", [None, False, 0, [], {"a": [1.5, "b"]}])
def test_an_answer_comes_back_as_it_was(answer: Any) -> None:
    remembered("any", {}, lambda: answer)
    assert remembered("any", {}, Asked()) == answer


@pytest.mark.parametrize(
    "settings",
    [
        {"target": "bitsandbytes.optim.AdamW8bit"},
        {"target": "mydit.Dit"},
        {"target": "lun.local.networks.Mine"},
        {"params": [{"target": "mydit.Dit"}]},
        {"value": object()},
        {"value": {1, 2}},
    ],
    ids=["what asks a device", "a package of one's own", "a module in the drawer", "one within", "an object", "a set"],
)
def test_nothing_is_kept_of_what_may_change_unnoticed(settings: Any, cache: Path) -> None:
    asked = Asked()
    assert [remembered("any", settings, asked) for _ in range(2)] == [1, 2]
    assert not cache.exists()


def changed_file(folder: Path) -> str:
    file = folder / "config.json"
    file.write_text(file.read_text() + " " if file.exists() else "{}")
    return str(file)


def changed_folder(folder: Path) -> str:
    (folder / "deep").mkdir(exist_ok=True)
    changed_file(folder / "deep")
    return str(folder)


def touched_file(folder: Path) -> str:
    file = folder / "weights"
    count = file.stat().st_mtime_ns if file.exists() else 0
    file.write_bytes(b"")
    os.utime(file, ns=(0, count + 1))
    return str(file)


@pytest.mark.parametrize("change", [changed_file, changed_folder, touched_file])
def test_a_file_or_folder_that_settings_name_counts_as_it_is_now(change: Callable[[Path], str], tmp_path: Path) -> None:
    asked = Asked()
    named = change(tmp_path)
    assert [remembered("any", {"version": named}, asked) for _ in range(2)] == [1, 1]
    change(tmp_path)
    assert remembered("any", {"version": named}, asked) == 2


@pytest.mark.parametrize("text", ["~nobody-of-this-name/x", "a\0b", "x" * 5000, ""])
def test_a_text_that_is_no_path_is_a_setting_like_another(text: str) -> None:
    asked = Asked()
    assert [remembered("any", {"value": text}, asked) for _ in range(2)] == [1, 1]


def test_a_folder_of_too_many_files_is_not_looked_through(tmp_path: Path) -> None:
    for number in range(MOST_FILES + 1):
        (tmp_path / str(number)).touch()
    asked = Asked()
    assert [remembered("any", {"version": str(tmp_path)}, asked) for _ in range(2)] == [1, 2]


def test_what_another_version_answered_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()
    remembered("any", {}, asked)
    monkeypatch.setattr(module, "versions", lambda: "another")
    assert [remembered("any", {}, asked) for _ in range(2)] == [2, 2]


def test_a_version_follows_the_programs_own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ldm").mkdir()
    (tmp_path / "ldm" / "one.py").write_text("a = 1")
    monkeypatch.setattr(module, "PROGRAM", tmp_path)
    before = module.versions.__wrapped__()
    assert module.versions.__wrapped__() == before
    (tmp_path / "ldm" / "one.py").write_text("a = 10")
    assert module.versions.__wrapped__() != before


def test_a_version_changes_with_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "site-packages"
    installed.mkdir()
    monkeypatch.setattr(sys, "path", [str(installed), str(tmp_path)])
    before = module.versions.__wrapped__()
    (tmp_path / "beside").touch()
    assert module.versions.__wrapped__() == before
    os.utime(installed, ns=(0, 0))
    assert module.versions.__wrapped__() != before


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"asked": 1}'])
def test_a_damaged_file_is_as_good_as_none(damage: str, cache: Path) -> None:
    asked = Asked()
    remembered("any", {}, asked)
    (file,) = (cache / module.FOLDER).iterdir()
    file.write_text(damage)
    assert [remembered("any", {}, asked) for _ in range(2)] == [2, 2]
    assert json.loads(file.read_text())["answer"] == 2


def test_what_others_could_have_written_is_not_read(cache: Path) -> None:
    asked = Asked()
    remembered("any", {}, asked)
    (cache / module.FOLDER).chmod(0o777)
    assert [remembered("any", {}, asked) for _ in range(2)] == [2, 3]


def test_an_error_is_raised_and_not_kept() -> None:
    def fail() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        remembered("any", {}, fail)
    assert remembered("any", {}, lambda: 1) == 1


def test_where_nothing_can_be_written_answers_are_found_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "file"))
    asked = Asked()
    assert [remembered("any", {}, asked) for _ in range(2)] == [1, 2]
