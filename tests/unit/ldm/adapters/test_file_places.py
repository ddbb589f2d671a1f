"""Adapters of layers whose weights files have beside others'."""

import pytest
import torch

from ldm.adapters.file_places import FilePlace, placed, taken
from ldm.errors import Fault

LORA = {
    "lora_down.weight": torch.randn(2, 6, generator=torch.Generator().manual_seed(1)),
    "lora_up.weight": torch.randn(4, 2, generator=torch.Generator().manual_seed(2)),
    "alpha": torch.tensor(1.0),
}
NAMES = {word: FilePlace("joined", part, 3) for part, word in enumerate("qkv")}


def product(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    down = tensors["lora_down.weight"]
    return tensors["lora_up.weight"] @ down * (float(tensors["alpha"]) / len(down))


def test_a_part_has_its_own_rows_of_what_files_have_as_one() -> None:
    joined = placed({"v": LORA, "q": LORA}, NAMES)["joined"]
    rows = product(joined).chunk(3)
    torch.testing.assert_close(torch.stack([rows[0], rows[2]]), torch.stack([product(LORA)] * 2))
    assert not rows[1].any()
    for word, place in NAMES.items():
        torch.testing.assert_close(product(taken(joined, word, place)), rows[place.part])


def test_halves_in_the_other_order_come_back_in_their_own() -> None:
    place = FilePlace("norm", swapped=True)
    there = placed({"norm": LORA}, {"norm": place})["norm"]
    torch.testing.assert_close(product(there), product(LORA)[[2, 3, 0, 1]])
    assert torch.equal(taken(there, "norm", place)["lora_up.weight"], LORA["lora_up.weight"])


@pytest.mark.parametrize("end", ["dora_scale", "lokr_w1"])
def test_what_is_no_sum_of_its_layers_is_not_divided_among_them(end: str) -> None:
    tensors = LORA | {end: torch.ones(1, 6)} if end == "dora_scale" else {end: torch.ones(2, 2)}
    with pytest.raises(Fault, match="MOD03") as caught:
        taken(tensors, "q", NAMES["q"])
    assert "joined" in caught.value.what


def test_a_layer_without_a_name_is_refused() -> None:
    with pytest.raises(Fault, match="MOD03"):
        placed({"other": LORA}, NAMES)
