"""Changes as products of narrow matrices, and the ranks that rules choose."""

import pytest
import torch

from ldm.adapters.decomposition import EXACT_SIDE, RankRule, decompose, decompose_product
from ldm.errors import Fault


def spectrum(values: torch.Tensor, side: int = 40) -> torch.Tensor:
    """A matrix with these singular values."""
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.linalg.qr(torch.randn(side, len(values), generator=generator))[0] for _ in range(2))
    return (left * values) @ right.T


def test_a_product_has_the_factors_of_its_matrix_though_that_is_never_formed() -> None:
    generator = torch.Generator().manual_seed(2)
    up, down = torch.randn(30, 5, generator=generator), torch.randn(5, 50, generator=generator)
    factors, formed = decompose_product(up, down), decompose(up @ down)
    torch.testing.assert_close(factors.values, formed.values[:5], rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(factors.product(), up @ down, rtol=1e-4, atol=1e-4)


def test_a_few_factors_of_a_large_matrix_are_near_the_best_and_the_same_for_a_seed() -> None:
    side = EXACT_SIDE + 100
    matrix = spectrum(1 / torch.arange(1.0, 101.0), side)
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first, second = decompose(matrix, few=16, seed=3), decompose(matrix, few=16, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.up, second.up) and not first.whole
    left = (matrix - first.cut(16).product()).norm()
    assert left <= 1.02 * (1 / torch.arange(17.0, 101.0)).norm()


VALUES = torch.tensor([4.0, 3.0, 2.0, 1.0])  # squares 16 9 4 1 of 30, sums 4 7 9 10 of 10


@pytest.mark.parametrize(
    ("rule", "rank"),
    [
        ("3", 3),
        ("9", 4),
        ("energy=0.8", 2),
        ("error=0.3", 3),
        ("error=0.1", 4),
        ("cumulative=0.7", 2),
        ("ratio=2", 3),
        ("ratio=1.1", 1),
        ("2,error=0.1", 2),
        ("ratio=2,9", 3),
    ],
)
def test_a_rule_chooses_the_rank_by_singular_values(rule: str, rank: int) -> None:
    assert RankRule.parse(rule).of(VALUES) == rank


def test_the_error_of_a_cut_is_within_the_bound_that_chose_it_and_one_less_is_not() -> None:
    matrix = spectrum(torch.arange(20.0, 0.0, -1))
    factors = decompose(matrix)
    rank = RankRule.parse("error=0.2").of(factors.values)
    errors = [float((matrix - factors.cut(r).product()).norm() / matrix.norm()) for r in (rank - 1, rank)]
    assert errors[1] <= 0.2 < errors[0]


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "error=2", "error=", "ratio=0.5", "size=3", "3,4", "", "error=nan"])
def test_what_is_no_rank_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(Fault, match="CLI03") as caught:
        RankRule.parse(text)
    assert "cumulative" in caught.value.why


def test_a_rule_is_shown_as_it_is_written() -> None:
    assert [str(RankRule.parse(text)) for text in ("16", "error=0.1", "error=0.1,16")] == [
        "16",
        "error=0.1",
        "16,error=0.1",
    ]
