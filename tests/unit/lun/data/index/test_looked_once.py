"""A folder is listed, and its files looked at, by one rank of a start; nothing is taken over from anybody else."""

import json
import os
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lun.data.index.looked_once import share_looks
from lun.data.index.store import index_path
from lun.data.local import Local

RANKS = 3
TEXTS = {"metadata_params": {"skip_caption": False}}


def put(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (6, 4)).save(root / name)


def sidecars(root: Path, name: str) -> None:
    put(root, f"x/{name}.png")
    (root / f"x/{name}.txt").write_bytes(os.fsencode(name))
    put(root, f"mask/{name}.png")


def flat(root: Path, name: str) -> None:
    put(root, f"img/{name}.png")
    (root / "txt").mkdir(exist_ok=True)
    (root / f"txt/{name}.txt").write_bytes(os.fsencode(name))


def board(root: Path, name: str) -> None:
    put(root, f"img/{name}.png")
    (root / "metadata").mkdir(exist_ok=True)
    told = unicodedata.normalize("NFD", f"img/{name}.png")
    (root / f"metadata/{name}.json").write_text(json.dumps({"path": told, "tags": [name]}))


Put = Callable[[Path, str], None]


@pytest.fixture(params=[sidecars, flat, board])
def added(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Adds a picture of a name to the set, which has some, and one with an odd name among them."""
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))
    for name in ("a", "b", "caf\u00e9", os.fsdecode(b"odd\xff")):
        if name.isprintable() or request.param is not board:  # no JSON names it
            request.param(tmp_path / "set", name)
    return lambda name: request.param(tmp_path / "set", name)


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    yield
    share_looks(None)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often something was listed, and a file looked at."""
    counted: Counter[str] = Counter()

    def counting(name: str) -> None:
        real = getattr(os, name)

        def call(*given: Any, **named: Any) -> Any:
            if name != "stat" or "dir_fd" in named:
                counted[name] += 1
            return real(*given, **named)

        monkeypatch.setattr(os, name, call)

    for name in ("scandir", "listdir", "stat"):
        counting(name)
    return counted


def seen(root: Path) -> tuple[Any, ...]:
    data = Local(str(root), **TEXTS)
    captions = [data.caption(index) for index in range(len(data))]
    return data.names(), captions, data.sizes().tolist(), data.fingerprint(), data.selection.contents.unread


def by_ranks(start: str, root: Path) -> list[tuple[Any, ...]]:
    """What each rank of a start sees, all at the same time; locks of threads are those of processes."""
    found: list[tuple[Any, ...]] = []

    def rank() -> None:
        share_looks(start)
        found.append(seen(root))

    threads = [threading.Thread(target=rank) for _ in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def test_all_ranks_of_a_start_look_as_often_as_one_process(
    added: Callable[[str], None], tmp_path: Path, looks: Counter[str]
) -> None:
    root = tmp_path / "set"
    seen(root)  # what is kept over starts is there
    looks.clear()
    expected = seen(root)
    once = looks.copy()
    looks.clear()
    assert by_ranks("one", root) == [expected] * RANKS
    assert looks == once and once["scandir"] > 1 and once["stat"] >= len(expected[0])


def test_the_first_start_of_all_reads_each_file_once(
    added: Callable[[str], None], tmp_path: Path, looks: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "set"
    expected = seen(root)
    once = looks.copy()
    looks.clear()
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "another cache"))
    assert by_ranks("one", root) == [expected] * RANKS
    assert looks["scandir"] == once["scandir"]


def test_what_another_start_or_an_earlier_question_saw_is_looked_at_again(
    added: Callable[[str], None], tmp_path: Path
) -> None:
    root = tmp_path / "set"
    before = len(by_ranks("one", root)[0][0])
    added("new")
    assert {len(names) for names, *_ in by_ranks("two", root)} == {before + 1}
    share_looks("three")
    assert len(seen(root)[0]) == before + 1
    added("newer")
    assert len(seen(root)[0]) == before + 2


def test_a_folder_that_took_the_place_of_another_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))
    for root, name in (("set", "a"), ("other", "b")):
        flat(tmp_path / root, name)
    by_ranks("one", tmp_path / "set")
    (tmp_path / "set").rename(tmp_path / "former")
    (tmp_path / "other").rename(tmp_path / "set")
    assert {tuple(names) for names, *_ in by_ranks("one", tmp_path / "set")} == {("img/b.png",)}


def test_a_process_alone_keeps_no_looks(added: Callable[[str], None], tmp_path: Path) -> None:
    seen(tmp_path / "set")
    kept = {path.name for path in index_path(tmp_path / "set", "any").parent.glob("*.columns")}
    assert kept <= {"board.columns", "texts.columns", "sizes.columns"}
