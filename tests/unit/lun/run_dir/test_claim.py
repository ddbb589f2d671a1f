from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.locks import another_process

from ldm.errors import Fault
from lun.run_dir import lock
from lun.run_dir.claim import MARK, claim_folder, writing_into


def test_many_who_want_one_name_at_once_each_get_a_folder_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        folders = list(pool.map(lambda _: claim_folder(tmp_path / "a" / "run", "-o"), range(64)))
    assert len(set(folders)) == 64
    assert tmp_path / "a" / "run" in folders


def test_a_folder_that_cannot_be_made_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Fault, match="DSK01"):
        claim_folder(tmp_path / "file" / "run", "--logdir")


def test_a_folder_that_another_process_writes_into_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with writing_into(out, "-o"), pytest.raises(Fault, match="another process"), writing_into(out, "-o"):
        pytest.fail("two at once")


def test_a_folder_of_another_process_says_which_and_is_free_once_that_is_killed(tmp_path: Path) -> None:
    with another_process(tmp_path, MARK) as process:
        with pytest.raises(Fault, match=f"process {process.pid} on "), writing_into(tmp_path, "-o"):
            pytest.fail("two at once")
        process.kill()
        process.join()
        assert (tmp_path / MARK).exists()
        with writing_into(tmp_path, "-o") as folder:
            assert folder == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_a_mark_that_was_removed_while_it_was_waited_for_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two would hold a lock each, one of them of a file that nobody finds."""
    locked: list[int] = []

    def first_removed(file: int) -> None:
        if not locked:
            (tmp_path / MARK).unlink()
        locked.append(file)

    monkeypatch.setattr(lock, "lock_for_process", first_removed)
    with writing_into(tmp_path, "-o"):
        assert len(locked) == 2 and (tmp_path / MARK).exists()


def test_a_folder_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), writing_into(tmp_path / "out", "-o"):
        raise KeyError
    assert not (tmp_path / "out" / MARK).exists()


def test_a_file_is_no_folder_to_write_into(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(Fault, match="CLI04"), writing_into(tmp_path / "out", "-o"):
        pytest.fail("written")
