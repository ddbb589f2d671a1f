"""What may be asked of any dataset, whatever it answers itself."""

from pathlib import Path
from typing import Any

import pytest

from ldm.errors import Fault
from lun.data.dataset_protocol import DatasetAccess
from lun.data.overlap import count_overlap
from lun.data.tag_counts import tag_frequency


class Named:
    """Three examples that are no files."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> dict[str, Any]:
        raise AssertionError("no picture is opened to answer these questions")

    def path(self, index: int) -> str:
        return self.names[index]


class Tagged(Named):
    def tags(self) -> list[list[str]]:
        return [[name, "colour", "colour"] for name in self.names]


class Captioned(Named):
    def caption(self, index: int, draws: Any = None) -> str:
        return f"{self.names[index]}, plain"


class Files(Named):
    def path(self, index: int) -> Path:  # type: ignore[override]
        return Path(self.names[index])


def test_examples_without_files_overlap_by_their_names() -> None:
    assert count_overlap(Named("red", "blue"), Named("blue", "green", "red")) == 2
    assert count_overlap(Named("red"), ["red"]) == 0


def test_a_file_is_the_same_by_whatever_way_it_is_reached(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert count_overlap(Files(str(tmp_path / "real/a.png")), Files(str(tmp_path / "link/a.png"))) == 1


def test_tags_count_once_an_example_and_captions_stand_in_for_them() -> None:
    assert tag_frequency(Tagged("red", "blue")) == {"Tagged": {"colour": 2, "red": 1, "blue": 1}}
    assert tag_frequency(Captioned("red", "blue")) == {"Captioned": {"plain": 2, "red": 1, "blue": 1}}
    assert tag_frequency(Named("red")) == {}


def test_tags_of_another_number_of_examples_are_refused() -> None:
    broken = Tagged("red")
    broken.tags = lambda: [["a"], ["b"]]  # type: ignore[method-assign]
    with pytest.raises(Fault, match="tags\\(\\) of the dataset makes no sense") as fault:
        DatasetAccess(broken).tags()
    assert fault.value.id == "DAT08"


def test_a_dataset_that_tells_nothing_is_known_by_its_class_and_length() -> None:
    assert DatasetAccess(["a"]).fingerprint() != DatasetAccess(["a", "b"]).fingerprint()
    assert DatasetAccess(["a"]).paths() is None and DatasetAccess(["a"]).path(3) == "example 3"
