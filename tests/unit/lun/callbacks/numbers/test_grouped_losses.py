"""Which examples belong to a noise level, a size, a tag."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ldm.errors import Fault
from lun.callbacks import LossByNoiseLevel, LossBySize, LossByTag
from lun.callbacks.numbers.grouped_losses import most_frequent


def told(callback: Any, **rows: list[float]) -> dict[str, float]:
    return dict(callback.measure("train", {name: np.array(column) for name, column in rows.items()}, 1))


def test_bins_of_the_noise_level_are_equal_and_the_last_ones_open() -> None:
    rows = {"log_snr": [-np.inf, -5.9, -0.1, 0.0, 1.9, 7.0], "loss": [1.0, 2.0, 3.0, 4.0, 6.0, 7.0]}
    found = told(LossByNoiseLevel(), **rows)
    levels = {"..-6": 1.0, "-6..-4": 2.0, "-2..0": 3.0, "0..2": 5.0, "6..": 7.0}
    assert found == {f"train/loss_by_snr/{level}": loss for level, loss in levels.items()}
    assert "train/loss_by_snr/-0.5..0" in told(LossByNoiseLevel(width=0.5, reach=1.0), **rows)


@pytest.mark.parametrize("numbers", [{"width": 0}, {"reach": -1.0}, {"reach": 1e9}, {"width": 1e-9}])
def test_bins_without_width_or_without_end_are_refused(numbers: dict[str, Any]) -> None:
    with pytest.raises(Fault, match="cannot be"):
        LossByNoiseLevel(**numbers)


def test_sizes_are_told_by_width_and_height() -> None:
    rows = {"width": [64, 32, 64], "height": [32, 64, 32], "loss": [1.0, 5.0, 2.0]}
    assert told(LossBySize(), **rows) == {"train/loss_by_size/32x64": 5.0, "train/loss_by_size/64x32": 1.5}


@pytest.mark.parametrize(
    ("tag", "caption", "has"),
    [
        ("red hat", "Red_hat, solo", True),
        ("solo", "soloist", False),
        ("c++", "in c++ and red", True),
        ("a.b", "axb", False),
    ],
)
def test_a_tag_is_whole_words_in_the_caption_that_is_told(tag: str, caption: str, has: bool) -> None:
    examples: list[Any] = []
    model = SimpleNamespace(examples=SimpleNamespace(watch=examples.append))
    by_tag = LossByTag([tag])
    by_tag.setup(SimpleNamespace(log_every_n_steps=1), model, "fit")  # type: ignore[arg-type]
    (columns,) = examples
    numbers = {name: np.array(column({"caption": [caption]})) for name, column in columns.items()}
    found = by_tag.measure("train", {"loss": np.array([2.0]), **numbers}, 1)
    assert dict(found) == ({f"train/loss_by_tag/{tag}": 2.0} if has else {})


class Described:
    def __len__(self) -> int:
        return 3

    def tags(self) -> list[list[str]]:
        return [["red", "solo"], ["solo", "blue"], ["solo", "red"]]


def test_the_most_frequent_tags_are_those_of_the_training_set() -> None:
    trainer: Any = SimpleNamespace(datamodule=SimpleNamespace(dataset={"train": Described()}.__getitem__))
    assert most_frequent(trainer, 2) == ["solo", "red"]


@pytest.mark.parametrize("tags", [[], 0, [""]])
def test_no_tags_are_refused(tags: Any) -> None:
    with pytest.raises(Fault, match="no tags"):
        LossByTag(tags)
