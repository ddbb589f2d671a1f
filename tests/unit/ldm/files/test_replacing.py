"""A file is whole or absent: the one law of everything that this program writes beside its place."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ldm.files import replacing as owner
from ldm.files.replacing import (
    is_leftover,
    replace_link,
    replace_text,
    replacing,
    replacing_folder,
    temporary_name,
)


def by_file(path: Path, content: str) -> None:
    with replacing(path) as file:
        file.write(content.encode())
        refuse(content)


def by_text(path: Path, content: str) -> None:
    refuse(content)
    replace_text(path, content)


def by_folder(path: Path, content: str) -> None:
    with replacing_folder(path) as folder:
        (folder / "a").write_text(content)
        refuse(content)


def refuse(content: str) -> None:
    if content == "broken":
        raise KeyboardInterrupt  # nothing of ours: whatever ends the block


def read(path: Path) -> str:
    return (path / "a" if path.is_dir() else path).read_text()


WRITERS = [by_file, by_text, by_folder]


@pytest.mark.parametrize("write", WRITERS)
def test_what_was_written_is_there_and_nothing_else(tmp_path: Path, write: Callable[[Path, str], None]) -> None:
    for content in ("first", "second"):
        write(tmp_path / "new" / "it", content)
        assert read(tmp_path / "new" / "it") == content
        assert os.listdir(tmp_path / "new") == ["it"]


@pytest.mark.parametrize("before", [None, "first"])
@pytest.mark.parametrize("write", WRITERS)
def test_an_interrupted_writer_leaves_what_was_there(
    tmp_path: Path, write: Callable[[Path, str], None], before: str | None
) -> None:
    if before:
        write(tmp_path / "it", before)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "it", "broken")
    assert os.listdir(tmp_path) == (["it"] if before else [])
    assert before is None or read(tmp_path / "it") == before


def test_a_file_is_on_the_disk_before_it_has_its_name_and_its_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, move = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append(kind_of(handle)), fsync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("move"), move(*names)))
    replace_text(tmp_path / "it", "text")
    assert done == ["file", "move", "folder"]


def kind_of(handle: int) -> str:
    return "folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file"


def test_a_private_file_is_nobody_elses_at_any_moment(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        for private, mode in ((True, 0o600), (False, 0o666)):
            with replacing(tmp_path / "it", private=private):
                (unfinished,) = (path for path in tmp_path.iterdir() if path.name != "it")
                assert stat.S_IMODE(unfinished.stat().st_mode) == mode
            assert stat.S_IMODE((tmp_path / "it").stat().st_mode) == mode
    finally:
        os.umask(old)


def test_a_link_takes_the_place_of_another_and_not_of_what_that_led_to(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        replace_link(tmp_path / "latest", name)
        assert (tmp_path / "latest").resolve() == tmp_path / name
    assert sorted(os.listdir(tmp_path)) == ["latest", "one", "two"]


def test_the_old_folder_comes_back_where_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_folder(tmp_path / "it", "first")
    moves, move = [], os.replace

    def second_fails(*names: Path) -> None:
        moves.append(names)
        if len(moves) == 2:
            raise OSError(5, "Input/output error")
        move(*names)

    monkeypatch.setattr(os, "replace", second_fails)
    with pytest.raises(OSError, match="Input/output"):
        by_folder(tmp_path / "it", "second")
    assert read(tmp_path / "it") == "first" and os.listdir(tmp_path) == ["it"]


def test_two_writers_of_one_process_never_share_an_unfinished_file(tmp_path: Path) -> None:
    assert temporary_name(tmp_path / "it") != temporary_name(tmp_path / "it")


def test_a_leftover_is_what_a_dead_process_was_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_leftover(temporary_name(tmp_path / "it"))  # of an earlier process with our number
    monkeypatch.setattr(owner.os, "getpid", lambda: -1)
    parent = os.getppid()
    assert not is_leftover(tmp_path / f".it.tmp-{parent}-0a") and not is_leftover(tmp_path / f".it.tmp-{parent}")
    assert is_leftover(tmp_path / f".it.tmp-{2**22 + 1}-0a")  # above the highest that Linux gives
    assert not is_leftover(tmp_path / ".it.tmp-notes") and not is_leftover(tmp_path / "it")
