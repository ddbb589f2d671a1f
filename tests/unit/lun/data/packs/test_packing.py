"""Packing: equal bytes from equal input, going on after a kill, adding, and what is refused."""

import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from PIL import Image
from support.packable import add, contents

from ldm.errors import Fault
from lun.data.local import Local
from lun.data.packed import PackedSet
from lun.data.packs import packing
from lun.data.packs.destination import FolderDestination
from lun.data.packs.packing import Packing, PackSettings
from lun.data.packs.shard_samples import Samples
from lun.data.packs.storage import Folder

SMALL = PackSettings(shard_bytes=3000)


@pytest.fixture
def pictures(tmp_path: Path) -> Local:
    return add(tmp_path / "loose", range(12))


def test_equal_input_gives_equal_bytes(pictures: Local, tmp_path: Path) -> None:
    for name in "ab":
        Packing(pictures, FolderDestination(tmp_path / name), SMALL).run()
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert len(list((tmp_path / "a").glob("*.tar"))) > 2


def test_the_tar_files_are_ones_that_python_reads(pictures: Local, tmp_path: Path) -> None:
    import tarfile

    Packing(pictures, FolderDestination(tmp_path / "a"), SMALL).run()
    with tarfile.open(tmp_path / "a/000000.tar") as archive:
        names = archive.getnames()
    assert [name.partition(".")[2] for name in names] == ["json", "png"] * (len(names) // 2)


def test_a_pack_killed_at_any_sample_and_finished_equals_one_that_was_not(
    pictures: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Packing(pictures, FolderDestination(tmp_path / "whole"), SMALL).run()
    sample = Packing._sample
    for count in range(0, 12, 3):
        left = [count]

        def dying(self: Packing, index: int, number: int, left: list[int] = left) -> object:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            return sample(self, index, number)

        monkeypatch.setattr(Packing, "_sample", dying)
        with pytest.raises(KeyboardInterrupt):
            Packing(pictures, FolderDestination(tmp_path / f"cut{count}"), SMALL).run()
        monkeypatch.setattr(Packing, "_sample", sample)
        Packing(pictures, FolderDestination(tmp_path / f"cut{count}"), SMALL).run()
        assert contents(tmp_path / f"cut{count}") == contents(tmp_path / "whole")


def killed_after(calls: int, work: Callable[[], object]) -> bool:
    """Whether a fork that does `work` met `kill -9` after so many calls of functions, before it was done."""
    pid = os.fork()
    if not pid:
        left = [calls]

        def trace(*_: object) -> None:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.settrace(trace)
        try:
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def test_a_pack_killed_ten_times_at_random_moments_and_finished_equals_one_that_was_not(
    pictures: Local, tmp_path: Path
) -> None:
    Packing(pictures, FolderDestination(tmp_path / "whole"), SMALL).run()
    random, kills = Random(0), 0
    while kills < 10:
        kills += killed_after(
            random.randrange(1, 4000), lambda: Packing(pictures, FolderDestination(tmp_path / "cut"), SMALL).run()
        )
        if (tmp_path / "cut/set.json").exists():
            Packing(pictures, FolderDestination(tmp_path / "cut"), SMALL).run()
            assert contents(tmp_path / "cut") == contents(tmp_path / "whole")
            shutil.rmtree(tmp_path / "cut")
    Packing(pictures, FolderDestination(tmp_path / "cut"), SMALL).run()
    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def test_what_is_packed_already_is_left_as_it_is(pictures: Local, tmp_path: Path) -> None:
    Packing(pictures, FolderDestination(tmp_path / "a"), SMALL).run()
    before = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "a").iterdir()}
    assert Packing(pictures, FolderDestination(tmp_path / "a"), SMALL).run().samples == 12
    assert before == {file.name: file.stat().st_mtime_ns for file in (tmp_path / "a").iterdir()}


def test_captions_that_changed_since_are_no_set_that_is_packed_already(
    pictures: Local, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Packing(pictures, FolderDestination(tmp_path / "a"), SMALL).run()
    (tmp_path / "loose/003.txt").write_text("another!!")
    again = Local(str(tmp_path / "loose"), size=8)
    with pytest.raises(Fault, match="with other captions") as found:
        Packing(again, FolderDestination(tmp_path / "a"), SMALL).run()
    assert (found.value.id, found.value.fix) == ("CLI04", "-o ANOTHER_DIR")
    Packing(again, FolderDestination(tmp_path / "a"), SMALL, append=True).run()
    assert "1 pictures stay with the captions that they were packed with" in caplog.text


def test_a_set_that_does_not_tell_its_captions_is_compared_by_the_rest(
    pictures: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(packing, "BESIDE", "input")
        earlier.setattr(Packing, "_beside", lambda self, _: self.dataset.fingerprint())
        Packing(pictures, FolderDestination(tmp_path / "a"), SMALL).run()
    assert Packing(pictures, FolderDestination(tmp_path / "a"), SMALL).run().samples == 12


def test_appending_adds_shards_and_leaves_old_samples_where_they_were(pictures: Local, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    Packing(pictures, FolderDestination(folder), SMALL).run()
    before, old = contents(folder), PackedSet(str(folder), size=8)
    names = [old.samples[index].record["path"] for index in range(12)]
    facts = Packing(add(tmp_path / "loose", range(12, 17)), FolderDestination(folder), SMALL, append=True).run()
    assert facts.samples == 17
    after = contents(folder)
    assert all(after[name] == data for name, data in before.items() if name.endswith((".tar", ".idx")))
    found = [PackedSet(str(folder), size=8).samples[index].record["path"] for index in range(17)]
    assert found[:12] == names and sorted(found) == [f"{number:03}.png" for number in range(17)]
    assert Packing(add(tmp_path / "loose", range(0)), FolderDestination(folder), SMALL, append=True).run().samples == 17


def test_the_hash_order_mixes_names_and_does_not_depend_on_the_folder(pictures: Local, tmp_path: Path) -> None:
    Packing(pictures, FolderDestination(tmp_path / "a"), SMALL).run()
    Packing(pictures, FolderDestination(tmp_path / "b"), PackSettings(3000, "given")).run()
    mixed, given = ([Samples(Folder(tmp_path / name))[i].record["path"] for i in range(12)] for name in "ab")
    assert given == sorted(given) and mixed != given and sorted(mixed) == given


def test_large_pictures_are_made_smaller_where_that_is_asked_for(tmp_path: Path) -> None:
    dataset = add(tmp_path / "loose", range(2), side=40)
    Image.new("RGBA", (80, 20), (255, 0, 0, 128)).save(tmp_path / "loose/clear.png")
    Image.new("RGB", (20, 80)).save(tmp_path / "loose/photo.jpg")
    for name in ("clear", "photo"):
        (tmp_path / f"loose/{name}.txt").write_text(name)
    dataset = Local(str(tmp_path / "loose"), size=8)
    Packing(dataset, FolderDestination(tmp_path / "a"), PackSettings(order="given", max_side=32)).run()
    packed = PackedSet(str(tmp_path / "a"), size=8)
    assert packed.sizes().tolist() == [[32, 32], [32, 32], [32, 8], [8, 32]]
    heads = [packed.samples[index].picture.data[:4] for index in range(4)]
    assert [head[:3] == b"\xff\xd8\xff" for head in heads] == [False, False, False, True]


def test_pictures_that_cannot_be_read_are_left_out_and_told(
    pictures: Local, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "loose/bad.png").write_bytes(b"no picture")
    (tmp_path / "loose/bad.txt").write_text("bad")
    with caplog.at_level("INFO"):
        assert Packing(Local(str(tmp_path / "loose")), FolderDestination(tmp_path / "a"), SMALL).run().samples == 12
    assert "left out, since they cannot be read: 1 images" in caplog.text and "bad.png" in caplog.text


def test_folders_that_hold_something_else_are_refused(pictures: Local, tmp_path: Path) -> None:
    Packing(pictures, FolderDestination(tmp_path / "a"), SMALL).run()
    foreign, under_way = tmp_path / "foreign", tmp_path / "under_way"
    foreign.mkdir()
    (foreign / "x.tar").touch()
    under_way.mkdir()
    (under_way / packing.PLAN).write_text("{}")
    for settings, folder, append, told in (
        (PackSettings(9999), tmp_path / "a", False, "set of other pictures or settings"),
        (SMALL, foreign, False, "tar files of somebody else"),
        (SMALL, under_way, False, "another pack is under way"),
        (SMALL, foreign, True, "no packed set to append to"),
    ):
        with pytest.raises(Fault) as found:
            Packing(pictures, FolderDestination(folder), settings, append).run()
        assert found.value.id == "CLI04" and told in found.value.render()
