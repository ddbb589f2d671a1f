"""Tar files that somebody else made, indexed where they lie."""

import io
import json
import tarfile
from pathlib import Path

import pytest
from PIL import Image

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.packed import PackedSet
from lun.data.packs.scanning import index_shards


def shard(path: Path, first: int, count: int, folder: str = "", bad: bool = False) -> None:
    """As img2dataset writes them: picture, JSON and text of each key, with owners and dates."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(first, first + count):
            picture = io.BytesIO()
            Image.new("RGB", (8 + number, 8), (number, 0, 0)).save(picture, "JPEG")
            data = b"no picture" if bad else picture.getvalue()
            about = {"caption": f"picture {number}", "url": "http://somewhere", "width": 8 + number, "sha256": "x"}
            parts = {"jpg": data, "json": json.dumps(about).encode(), "txt": f"picture {number}".encode()}
            for extension, content in parts.items():
                info = tarfile.TarInfo(f"{folder}{number:09}.{extension}")
                info.size, info.mtime = len(content), 1_667_304_000
                archive.addfile(info, io.BytesIO(content))


@pytest.mark.parametrize("folder", ["", "./", "a" * 120 + "/"])
def test_foreign_shards_are_read_in_place(tmp_path: Path, folder: str) -> None:
    shard(tmp_path / "00000.tar", 0, 3, folder)
    shard(tmp_path / "00007.tar", 3, 2, folder)
    before = {file.name: file.read_bytes() for file in tmp_path.glob("*.tar")}
    assert index_shards(tmp_path).samples == 5
    found = PackedSet(str(tmp_path), size=8)
    assert found.sizes().tolist() == [[8 + number, 8] for number in range(5)]
    assert [found.example(i, Draws(0, i))["caption"] for i in range(5)] == [f"picture {i}" for i in range(5)]
    assert before == {file.name: file.read_bytes() for file in tmp_path.glob("*.tar")}


def test_what_cannot_be_indexed_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Fault, match="holds no tar files"):
        index_shards(tmp_path)
    shard(tmp_path / "a.tar", 0, 2, bad=True)
    with pytest.raises(Fault, match="has a picture"):
        index_shards(tmp_path)
    shard(tmp_path / "b.tar", 2, 2)
    assert index_shards(tmp_path).samples == 2
    assert "no picture that can be read: 2 samples" in caplog.text
    with pytest.raises(Fault, match="is a packed set already"):
        index_shards(tmp_path)
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut/a.tar").write_bytes((tmp_path / "b.tar").read_bytes()[:1500])
    with pytest.raises(Fault, match="is no whole tar file"):
        index_shards(tmp_path / "cut")
