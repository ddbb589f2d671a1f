"""A picture is found in its shard by the name that messages give it."""

from pathlib import Path

import pytest
from support.packable import add

from lun.data.packed import PackedSet
from lun.data.packs.named_sample import picture_of
from lun.pack.command import run


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("packed")
    add(place / "loose", range(9))
    assert run([str(place / "loose"), "-o", str(place / "set"), "--shard-mb", "0.004"]) == 0
    return place / "set"


def test_each_picture_is_found_by_its_own_name(packed: Path) -> None:
    dataset = PackedSet(str(packed), size=8)
    assert len(dataset.shard_lengths()) > 1
    for index in range(len(dataset)):
        found = picture_of(dataset.path(index))
        assert found is not None and found.data == dataset.encoded(index).data


@pytest.mark.parametrize(
    "name", ["a.png", "DIR/000000.tar#99", "DIR/other.tar#0", "s3://bucket/000000.tar#0", "no/000000.tar#0"]
)
def test_other_names_name_none(name: str, packed: Path) -> None:
    assert picture_of(name.replace("DIR", str(packed))) is None
