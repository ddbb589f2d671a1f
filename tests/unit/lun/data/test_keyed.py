"""Any dataset behind the batch contract."""

import numpy as np
import pytest
import torch
from PIL import Image
from support.pictures import Painted

from ldm.errors import Fault
from lun.data.dataset_protocol import DatasetAccess
from lun.data.keyed import Keyed

GOOD = torch.zeros(2, 2, 3)


class Plain:
    """A dataset of the user's own that returns `found` for every index."""

    def __init__(self, found: object) -> None:
        self.found = found

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> object:
        return self.found


class Drawing(Plain):
    def example(self, index, draws):
        return {"image": GOOD + torch.rand((), generator=draws("flip")), "caption": str(index)}


def fault(found: object) -> Fault:
    with pytest.raises(Fault) as caught:
        Keyed(Plain(found), 0)[8, 1]
    assert caught.value.id == "DAT08"
    assert caught.value.where.endswith(".Plain, index 1")
    return caught.value


def test_the_slot_is_added():
    example = Keyed(Plain({"image": GOOD, "caption": "a"}), 0)[8, 1]
    assert example["slot"] == 8
    assert len(Keyed(Plain(None), 0)) == 5


def test_a_dataset_that_draws_gets_the_draws_of_the_slot():
    first, again, other = (Keyed(Drawing(None), 0)[slot, 3]["image"] for slot in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_an_array_is_as_good_as_a_tensor():
    image = Keyed(Plain({"image": np.zeros((2, 2, 3)), "caption": ""}), 0)[0, 0]["image"]
    assert image.dtype == torch.float32


@pytest.mark.parametrize("image", [torch.full((2, 2, 3), 7, dtype=torch.uint8), np.full((2, 2, 3), 7, np.uint8)])
def test_bytes_stay_bytes(image):
    assert Keyed(Plain({"image": image, "caption": ""}), 0)[0, 0]["image"].dtype == torch.uint8


def test_a_later_example_of_another_type_is_refused():
    data = Plain({"image": GOOD, "caption": "a"})
    keyed = Keyed(data, 0)
    keyed[0, 0]
    data.found = {"image": (GOOD + 200).int(), "caption": "a"}
    with pytest.raises(Fault, match="image of torch.int32"):
        keyed[1, 1]


def test_a_mask_of_truths_counts_where_it_is_true():
    mask = Keyed(Plain({"image": GOOD, "caption": "", "mask": np.array([[True, False]] * 2)}), 0)[0, 0]["mask"]
    assert mask.tolist() == [[1.0, 0.0]] * 2


def test_cached_moments_stand_in_for_the_image():
    assert "image" not in Keyed(Plain({"moments": torch.zeros(8, 1, 1), "caption": ""}), 0)[0, 0]


@pytest.mark.parametrize(
    ("found", "what", "why"),
    [
        ((GOOD, "a"), "the dataset returns no map", "got tuple"),
        ({"jpg": GOOD, "caption": "a"}, "the dataset returns no image", "it has the keys jpg, caption"),
        ({"image": GOOD}, "the dataset returns no caption", "the key is missing"),
        ({"image": GOOD, "caption": 3}, "the dataset returns no caption", "caption is a int"),
        (
            {"image": torch.zeros(3, 8, 8), "caption": "a"},
            "the dataset returns an image of shape (3, 8, 8)",
            "it must be (height, width, 3); channels come last: image.permute(1, 2, 0)",
        ),
        (
            {"image": GOOD.to(torch.int32), "caption": "a"},
            "the dataset returns image of torch.int32",
            "it must be uint8, 0 to 255, or float32 in [-1, 1]: image / 127.5 - 1",
        ),
        (
            {"image": GOOD, "caption": "a", "mask": torch.ones(2, 2, dtype=torch.int64)},
            "the dataset returns mask of torch.int64",
            "it must be uint8, 0 to 255, or float32 in [0, 1], or bool",
        ),
        (
            {"image": GOOD + 200, "caption": "a"},
            "the dataset returns an image with values 200 to 200",
            "it must lie in [-1, 1]: image / 127.5 - 1",
        ),
        (
            {"image": GOOD * float("nan"), "caption": "a"},
            "the dataset returns an image with values nan to nan",
            "it must lie in [-1, 1]",
        ),
        (
            {"image": Image.new("RGB", (2, 2)), "caption": "a"},
            "the dataset returns an image that is a Image",
            "it must be a tensor; lun.data.images.decode.to_bytes makes one of a PIL image",
        ),
    ],
)
def test_anything_else_is_refused_with_the_reason(found, what, why):
    told = fault(found)
    assert (told.what, told.why) == (what, why)


def test_only_the_first_example_is_looked_at():
    data = Plain({"image": GOOD, "caption": "a"})
    keyed = Keyed(data, 0)
    assert keyed[0, 0]["slot"] == 0
    data.found = {"image": GOOD + 200, "caption": "a"}
    assert keyed[1, 1]["slot"] == 1


def test_weights_of_the_dataset_reach_the_example():
    keyed = Keyed(Painted([(8, 8)] * 3, weights=[1.0, 0.25, 2.0]), 0)
    assert [keyed[0, index]["weight"] for index in range(3)] == [1.0, 0.25, 2.0]
    assert "weight" not in Keyed(Painted([(8, 8)]), 0)[0, 0]


def test_a_picture_of_a_bucket_tells_its_sizes_height_first():
    example = Keyed(Painted([(100, 50)]), 0)[0, 0, (32, 32)]
    assert example["original_size"] == (50, 100)
    assert example["target_size"] == (32, 32)
    assert example["crop"] == (0, 16)
    assert example["image"].shape == (32, 32, 3)


def test_a_dataset_that_ignores_the_size_is_refused():
    class Stubborn(Painted):
        def example(self, index, draws, size=None):
            return super().example(index, draws)

    with pytest.raises(Fault, match="picture of another size") as caught:
        Keyed(Stubborn([(8, 8)]), 0)[0, 0, (16, 8)]
    assert caught.value.why == "16 x 8 was asked for, 2 x 2 came"


@pytest.mark.parametrize(
    "offered", [{"repeats": [1, 0]}, {"weights": [1.0, -1.0]}, {"weights": [1.0, float("nan")]}, {"repeats": [1]}]
)
def test_offers_that_make_no_sense_are_refused(offered):
    access = DatasetAccess(Painted([(8, 8)] * 2, **offered))
    with pytest.raises(Fault, match="DAT08"):
        access.repeats(), access.weights()


def test_a_dataset_without_sizes_cannot_be_read_in_buckets():
    with pytest.raises(Fault, match="cannot be read in buckets"):
        DatasetAccess(Plain(None)).sizes()
