"""A packed set written to a bucket: the same files as in a folder, whole or absent, wherever the packer was killed."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from support.fault_server import FaultServer
from support.object_server import serving_objects
from support.packable import add, contents

from ldm.errors import Fault
from lun.data.packed import PackedSet
from lun.data.packs import remote
from lun.data.packs.destination import Destination, FolderDestination, destination_of
from lun.data.packs.packing import Packing, PackSettings
from lun.data.packs.set_file import SET_FILE

pytest.importorskip("obstore")
SMALL = PackSettings(3000)


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    """`s3://pictures`, in the folder of that name."""
    (tmp_path / "pictures").mkdir()
    monkeypatch.setattr(remote, "_used_in", None)
    with serving_objects(tmp_path, monkeypatch) as server:
        yield server


def test_a_set_in_a_bucket_has_the_bytes_of_one_in_a_folder(
    bucket: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LEAST_PART", 1000)  # shards go in parts
    loose = add(tmp_path / "loose", range(9))
    for where in (str(tmp_path / "folder"), "s3://pictures/set"):
        Packing(loose, destination_of(where), SMALL).run()
    assert contents(tmp_path / "pictures/set") == contents(tmp_path / "folder")
    (tmp_path / "pictures/set/below").mkdir()
    (tmp_path / "pictures/set/below/x.tar").touch()
    assert destination_of("s3://pictures/set").names() == destination_of(str(tmp_path / "folder")).names()
    shutil.rmtree(tmp_path / "pictures/set/below")
    loose = add(tmp_path / "loose", range(14))
    for where in (str(tmp_path / "folder"), "s3://pictures/set"):
        assert Packing(loose, destination_of(where), SMALL, append=True).run().samples == 14
    assert contents(tmp_path / "pictures/set") == contents(tmp_path / "folder")
    found = [PackedSet(root, size=8).caption(13) for root in (str(tmp_path / "folder"), "s3://pictures/set")]
    assert found[0] == found[1]


class Dying:
    """A destination whose user is killed after `left` more files were written or taken away."""

    def __init__(self, inner: Destination, left: int) -> None:
        self.inner = inner
        self.left = left

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @contextmanager
    def new(self, name: str) -> Iterator[BinaryIO]:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        with self.inner.new(name) as file:
            yield file

    def delete(self, name: str) -> None:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.inner.delete(name)


@pytest.mark.parametrize("where", ["{}/folder", "s3://pictures/set"])
def test_a_pack_killed_between_any_two_files_and_finished_equals_one_that_was_not(
    where: str, bucket: FaultServer, tmp_path: Path
) -> None:
    loose = add(tmp_path / "loose", range(4))
    Packing(loose, FolderDestination(tmp_path / "whole"), SMALL).run()
    files = len(contents(tmp_path / "whole")) + 1  # and the plan
    for left in range(files + 1):  # and its end
        destination = destination_of(f"{where.format(tmp_path)}{left}")
        with pytest.raises(KeyboardInterrupt):
            Packing(loose, Dying(destination, left), SMALL).run()
        assert (SET_FILE in destination.names()) == (left == files)
        Packing(loose, destination, SMALL).run()
        folder = tmp_path / (f"pictures/set{left}" if where.startswith("s3") else f"folder{left}")
        assert contents(folder) == contents(tmp_path / "whole")


def test_an_append_killed_between_any_two_files_and_finished_equals_one_that_was_not(tmp_path: Path) -> None:
    Packing(add(tmp_path / "loose", range(3)), FolderDestination(tmp_path / "before"), SMALL).run()
    loose, whole = add(tmp_path / "loose", range(5)), shutil.copytree(tmp_path / "before", tmp_path / "whole")
    Packing(loose, FolderDestination(whole), SMALL, append=True).run()
    for left in count():
        folder = shutil.copytree(tmp_path / "before", tmp_path / f"cut{left}")
        try:
            Packing(loose, Dying(FolderDestination(folder), left), SMALL, append=True).run()
            break
        except KeyboardInterrupt:
            Packing(loose, FolderDestination(folder), SMALL, append=True).run()
        assert contents(folder) == contents(whole)
    assert left > 5


def test_what_takes_no_set_is_named(bucket: FaultServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loose = add(tmp_path / "loose", range(2))
    with pytest.raises(Fault, match="no set can be written to a https:// URL"):
        destination_of("https://somewhere/set")
    with pytest.raises(Fault, match="there is no bucket nowhere") as found:
        Packing(loose, destination_of("s3://nowhere/set"), SMALL).run()
    assert found.value.id == "DAT13"
    (tmp_path / "pictures/other").mkdir()
    (tmp_path / "pictures/other/x.tar").touch()
    with pytest.raises(Fault, match="tar files of somebody else"):
        Packing(loose, destination_of("s3://pictures/other"), SMALL).run()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", bucket.url)
    with pytest.raises(Fault, match="no credentials for s3://pictures/set"):
        Packing(loose, destination_of("s3://pictures/set"), SMALL).run()
