"""Whatever lies in the place of a file of a packed set is one message: nothing hangs or is an internal error."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ldm.errors import Fault
from lun.data.local import Local
from lun.data.packed import PackedSet
from lun.data.packs.destination import FolderDestination
from lun.data.packs.packing import PLAN, Packing, PackSettings
from lun.data.packs.scanning import index_shards
from lun.data.packs.set_file import SET_FILE

pytestmark = pytest.mark.timeout(200)
SMALL = PackSettings(2000)

ODD: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("gone"),
    "an empty file": Path.touch,
    "zeros": lambda path: path.write_bytes(bytes(9000)),
    "text": lambda path: path.write_text("{} no tar, no table"),
    "a number": lambda path: path.write_text("3"),
}


@pytest.fixture(scope="module")
def loose(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("loose")
    for number in range(3):
        values = np.random.default_rng(number).integers(0, 256, (16, 16, 3), dtype=np.uint8)
        Image.fromarray(values).save(root / f"{number}.png")
        (root / f"{number}.txt").write_text(f"picture {number}")
    return root


@pytest.fixture(scope="module")
def whole(loose: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "set"
    Packing(Local(str(loose), size=8), FolderDestination(folder), SMALL).run()
    return folder


def read(folder: Path) -> None:
    found = PackedSet(str(folder), size=8)
    found.sizes()
    for index in range(len(found)):
        found.picture(index, False)


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("file", [SET_FILE, "shards-*.table", "000001.idx", "000001.tar"])
def test_in_the_place_of_a_file_of_a_set(file: str, kind: str, whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "set")
    (path,) = folder.glob(file)
    path.unlink()
    ODD[kind](path)
    with pytest.raises(Fault) as found:
        read(folder)
    assert found.value.id in ("DAT13", "DAT14") and path.name in found.value.render()


VALUES = (None, True, -1, 1 << 70, 0.5, "x", [], [7], {}, ["a.tar"])
FACTS = ("samples", "shards", "table", "sha256", "names", "lines", "tags", "masks", "weighted", "further", "format")


@pytest.mark.parametrize("name", FACTS)
def test_in_the_place_of_what_a_set_says_of_itself(name: str, whole: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(whole, tmp_path / "set")
    said = json.loads((folder / SET_FILE).read_text())
    for value in VALUES:
        (folder / SET_FILE).write_text(json.dumps({**said, name: value}))
        if refused := outcome(folder):
            assert refused.id in ("DAT13", "DAT14")
    (folder / SET_FILE).write_text(json.dumps({**said, "more": 1}))
    assert (refused := outcome(folder)) is not None and refused.id == "DAT13"


def outcome(folder: Path) -> Fault | None:
    try:
        read(folder)
    except Fault as fault:
        return fault
    return None


@pytest.mark.parametrize("kind", ODD)
def test_in_the_place_of_tar_files_of_others(kind: str, tmp_path: Path) -> None:
    ODD[kind](tmp_path / "a.tar")
    with pytest.raises(Fault) as found:
        index_shards(tmp_path)
    assert found.value.id in ("DAT02", "DAT13", "DAT14") and not (tmp_path / SET_FILE).exists()


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "nothing"])
@pytest.mark.parametrize("file", [SET_FILE, PLAN, "000000.tar"])
def test_in_the_place_where_a_set_is_packed(file: str, kind: str, loose: Path, tmp_path: Path) -> None:
    path = tmp_path / "set" / file
    path.parent.mkdir()
    ODD[kind](path)
    with pytest.raises(Fault) as found:
        Packing(Local(str(loose), size=8), FolderDestination(path.parent), SMALL).run()
    assert found.value.id in ("CLI04", "DAT13")
    assert os.path.lexists(path)
