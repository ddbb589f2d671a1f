"""What one process reads of a folder, others of its machine take from the index; none waits for one that is gone."""

import fcntl
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lun.data.index import one_reader as readers
from lun.data.index import sizes, store
from lun.data.index.one_reader import one_reader
from lun.data.index.sizes import file_states, image_sizes
from lun.data.index.store import Stamps, indexed
from lun.data.metadata.picture_table import Table
from lun.data.metadata.table_builder import Rows

RANKS = 3


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))
    (tmp_path / "pictures").mkdir()
    for number in range(4):
        Image.new("RGB", (8 + number, 8)).save(tmp_path / f"pictures/{number}.png")
    return tmp_path / "pictures"


@pytest.fixture
def all_lack_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks into an index for the second time before all have done so for the first."""
    for module in (sizes, store):
        load, met = module._load, threading.Barrier(RANKS)
        first = threading.local()

        def loaded(path, load=load, met=met, first=first):  # type: ignore[no-untyped-def]
            found = load(path)
            if not hasattr(first, "done"):
                first.done = True
                met.wait(timeout=100)
            return found

        monkeypatch.setattr(module, "_load", loaded)


def each(work) -> list[object]:  # type: ignore[no-untyped-def]
    """What `work` gives to each of several that ask at the same time; locks of threads are those of processes."""
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(work())) for _ in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(200)
    return found


@pytest.mark.usefixtures("all_lack_it")
def test_each_header_is_read_by_one_of_all_processes(pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    header = sizes.header_size
    monkeypatch.setattr(sizes, "header_size", lambda path: (read.append(path), header(path))[1])
    names = sorted(path.name for path in pictures.iterdir())
    found = each(lambda: image_sizes(pictures, names, file_states(pictures, names)).tolist())
    assert found == [[[8, 8], [9, 8], [10, 8], [11, 8]]] * RANKS and len(read) == len(names)


@pytest.mark.usefixtures("all_lack_it")
def test_each_description_is_read_by_one_of_all_processes(pictures: Path) -> None:
    parsed: list[int] = []

    def parse(rows: np.ndarray) -> Table:
        parsed.extend(rows.tolist())
        built = Rows()
        for row in rows.tolist():
            built.add("", f"{row}.png", f"picture {row}")
        return Table.of(built.packed())

    names = [f"{number}.png" for number in range(4)]
    stamps = Stamps.of(names, file_states(pictures, names))
    found = each(lambda: list(indexed(pictures, "texts", stamps, parse)[0].text))
    assert found == [[f"picture {row}" for row in range(4)]] * RANKS and parsed == [0, 1, 2, 3]


@pytest.fixture
def held(tmp_path: Path) -> Iterator[ExitStack]:
    """The right to read `index.columns` is another's, until it is closed."""
    with ExitStack() as stack:
        lock = stack.enter_context((tmp_path / "index.lock").open("w"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield stack


def test_one_that_ends_gives_the_right_to_the_next(
    held: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(readers, "sleep", lambda _: held.close())
    with one_reader(tmp_path / "index.columns"):
        assert "waiting  for another process" in caplog.text


def test_nobody_waits_for_ever_or_where_there_are_no_locks(
    held: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(readers, "PATIENCE_SECONDS", -1.0)
    with one_reader(tmp_path / "index.columns"):
        assert "reading it here as well" in caplog.text
    (tmp_path / "file").touch()
    with one_reader(tmp_path / "file" / "index.columns"):
        pass
