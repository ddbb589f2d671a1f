"""What differs between systems: as Linux does it, and as Windows has to, with the calls of POSIX taken away."""

import errno
import fcntl
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from ldm import operating_system as system
from ldm.files.replacing import flush_directory, is_leftover, replace_link, replace_text
from ldm.place import private_folder
from lun.data.index.dir_handle import HeldFolder
from lun.run_dir.lock import Holder, RunLock, take_over

LACKING = {
    os: "pread pwrite O_NOFOLLOW O_DIRECTORY O_PATH geteuid getloadavg sysconf sysconf_names sched_getaffinity uname",
    signal: "pthread_kill SIGUSR1 SIGHUP SIGKILL",
}


def msvcrt() -> ModuleType:
    """Windows' module of that name: locks of single bytes, which nobody waits for."""
    found = ModuleType("msvcrt")

    def locking(file: int, mode: int, length: int) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise PermissionError(errno.EACCES, "Permission denied") from error

    vars(found).update(locking=locking, LK_NBLCK=2)
    return found


@pytest.fixture(params=["Linux", "Windows"])
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The system of now, and one without what Windows lacks."""
    if request.param == "Windows":
        monkeypatch.setattr(system, "sys", SimpleNamespace(platform="win32"))
        for module, names in LACKING.items():
            for name in names.split():
                monkeypatch.delattr(module, name, raising=False)
        junctions = ModuleType("_winapi")
        vars(junctions)["CreateJunction"] = lambda folder, link: os.symlink(folder, link)
        given = {"fcntl": None, "resource": None, "msvcrt": msvcrt(), "_winapi": junctions}
        for name, module_or_none in given.items():
            monkeypatch.setitem(sys.modules, name, module_or_none)
        monkeypatch.setattr(system, "_lives_on_windows", lambda pid: pid == os.getppid())
        # What is a junction there is a link here, which `rmdir` does not remove.
        monkeypatch.setattr(os, "rmdir", os.unlink)
        monkeypatch.setattr(system, "_NAMES_FROM_FOLDERS", False)
    yield request.param


def test_a_file_that_is_locked_is_not_locked_again_until_it_is_closed(either: str, tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as first, (tmp_path / "lock").open("w") as second:
        system.lock_open_file(first)
        with pytest.raises(BlockingIOError):
            system.lock_open_file(second, wait=False)
        threading.Timer(0.1, first.close).start()
        system.lock_open_file(second)


def test_a_run_that_is_held_tells_its_holder_and_the_lock_leaves_the_file_readable(either: str, tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    assert lock.take() is None
    holder = lock.holder()
    assert holder is not None and holder.pid == os.getpid()
    lock.give_back()
    assert lock.holder() is None


def test_latest_leads_to_a_run_and_then_to_the_next(either: str, tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        replace_link(tmp_path / "latest", name)
        assert (tmp_path / "latest").resolve() == (tmp_path / name).resolve()
        assert system.is_folder_link(tmp_path / "latest") and not system.is_folder_link(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "latest", "second"]
    assert not system.is_folder_link(tmp_path / "absent")


def test_files_are_replaced_and_bytes_of_them_read_from_any_place(either: str, tmp_path: Path) -> None:
    replace_text(tmp_path / "a" / "file", "0123456789")
    flush_directory(tmp_path)
    file = system.open_to_read(tmp_path / "a" / "file", follow=False)
    assert [system.read_at(file, 3, first) for first in (5, 0, 8)] == [b"567", b"012", b"89"]
    os.close(file)
    with HeldFolder(tmp_path) as held:
        opened, (size, _) = held.open("a/file")
        os.close(opened)
        assert size == 10 and held.state("a/absent") == (-1, -1)
    assert private_folder(tmp_path / "own")


def test_who_lives_is_told_from_who_does_not(either: str) -> None:
    assert system.process_lives(os.getppid()) and not system.process_lives(2**22 + 1)
    assert is_leftover(Path(f".x.tmp-{2**22 + 1}-00")) and not is_leftover(Path(f".x.tmp-{os.getppid()}-00"))


def test_what_a_system_does_not_tell_is_none_and_the_rest_is_plausible(either: str) -> None:
    on_linux = either == "Linux"
    assert system.usable_cpus() >= 1 and system.host_name()
    for told in (system.load_average(), system.memory_bytes(), system.resident_bytes()):
        assert (told is not None) == on_linux
    assert system.can_interrupt_waits() == on_linux
    if not on_linux:
        system.end_with_parent()


def test_where_a_signal_would_end_a_training_unsaved_it_is_asked_by_a_file(
    either: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--take-over`."""
    sent: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append(number))
    holder = Holder(system.host_name(), os.getppid(), "now")

    def take(lock: RunLock) -> Holder | None:
        asked = signal.SIGTERM in sent or (tmp_path / "control" / "stop").exists()
        return None if asked else holder

    monkeypatch.setattr(RunLock, "take", take)
    take_over(tmp_path, patience=5.0, pause=0.01)
    assert (tmp_path / "control" / "stop").exists() == (either == "Windows")
