"""Examples become a batch."""

import pytest
import torch

from ldm.errors import Fault
from lun.data.example import collate


def example(slot: int, side: int = 2) -> dict:
    return {"image": torch.full((side, side, 3), float(slot)), "caption": f"c{slot}", "slot": slot}


def test_a_batch_keeps_the_order_of_its_examples():
    batch = collate([example(7), example(3)])
    assert batch["image"].shape == (2, 2, 2, 3)
    assert batch["image"][:, 0, 0, 0].tolist() == [7.0, 3.0]
    assert batch["caption"] == ["c7", "c3"]
    assert batch["slot"].tolist() == [7, 3]
    assert batch["slot"].dtype == torch.int64


def test_sizes_and_weights_become_tensors():
    batch = collate([example(0) | {"original_size": (480, 640), "weight": 0.5}] * 2)
    assert batch["original_size"].tolist() == [[480, 640]] * 2
    assert batch["weight"].dtype == torch.float32


def test_pictures_of_different_sizes_are_refused():
    with pytest.raises(Fault, match="DAT09") as caught:
        collate([example(0), example(1, side=4)])
    assert caught.value.why == "shapes (2, 2, 3), (4, 4, 3)"


def test_examples_with_different_keys_are_refused():
    with pytest.raises(Fault, match="DAT09"):
        collate([example(0), example(1) | {"crop": (0, 0)}])


def test_an_example_without_a_caption_for_a_further_encoder_has_its_own_there():
    batch = collate([example(0) | {"caption_2": "other"}, example(1)])
    assert batch["caption_2"] == ["other", example(1)["caption"]] and "caption_3" not in batch


def test_an_example_without_mask_or_weight_counts_in_full():
    masked = example(0) | {"weight": 0.5, "mask": torch.zeros(2, 2)}
    batch = collate([masked, example(1)])
    assert batch["weight"].tolist() == [0.5, 1.0]
    assert batch["mask"].flatten(1).sum(1).tolist() == [0.0, 4.0]


def test_an_example_without_a_mask_counts_in_full_beside_masks_of_bytes():
    batch = collate([example(0) | {"mask": torch.zeros(2, 2, dtype=torch.uint8)}, example(1)])
    assert batch["mask"].dtype == torch.uint8
    assert batch["mask"].flatten(1).float().mean(1).tolist() == [0.0, 255.0]


def test_bytes_beside_numbers_become_numbers():
    """Two sets in one batch: one of this program, one of the user's own that gives numbers."""
    of_bytes = {"image": torch.full((2, 2, 3), 255, dtype=torch.uint8), "mask": torch.full((2, 2), 51).byte()}
    numbers = {"image": torch.zeros(2, 2, 3), "mask": torch.ones(2, 2)}
    batch = collate([example(0) | of_bytes, example(1) | numbers])
    assert batch["image"][:, 0, 0, 0].tolist() == [1.0, 0.0]
    assert batch["mask"][:, 0, 0].tolist() == pytest.approx([0.2, 1.0])
