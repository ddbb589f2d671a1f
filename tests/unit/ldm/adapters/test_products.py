"""LoHa and LoKr: how sides are divided, and what is stored where."""

import pytest
import torch
from support.adapted import LAYERS, adapted

from ldm.adapters.products import LoKr, divided
from ldm.errors import Fault


@pytest.mark.parametrize(
    ("side", "factor", "found"),
    [(64, -1, (8, 8)), (320, -1, (16, 20)), (320, 8, (8, 40)), (7, -1, (1, 7)), (12, 100, (3, 4))],
)
def test_a_side_is_divided_into_its_largest_divisor_up_to_the_factor_and_the_rest(
    side: int, factor: int, found: tuple[int, int]
) -> None:
    assert divided(side, factor) == found


def test_lokr_of_two_whole_matrices_stores_no_alpha_since_readers_take_it_for_nothing() -> None:
    assert adapted("LoKr, whole", LAYERS["1x1"]()).tensors().keys() == {"lokr_w1", "lokr_w2"}
    low = adapted("LoKr, low rank", LAYERS["1x1"]()).tensors().keys()
    assert low == {"lokr_w1", "lokr_w2_a", "lokr_w2_b", "alpha"}


@pytest.mark.parametrize("factor", [0, -2])
def test_a_factor_that_divides_nothing_is_refused(factor: int) -> None:
    with pytest.raises(Fault, match="CFG03"):
        LoKr(LAYERS["linear"](), torch.Generator(), factor=factor)
