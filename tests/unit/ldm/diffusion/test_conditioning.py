"""Conditioning: mapped and joined field by field."""

import pytest
import torch

from ldm.diffusion.conditioning import Conditioning


def test_a_function_reaches_every_field_that_is_there() -> None:
    cond = Conditioning(context=torch.ones(1, 2, 3), pooled=torch.ones(1, 4)).map(lambda tensor: 2 * tensor)
    assert cond.context is not None
    assert cond.pooled is not None
    assert cond.context.unique().tolist() == cond.pooled.unique().tolist() == [2.0]
    assert cond.sizes is None
    assert cond.concat is None


def test_the_first_batch_comes_first_when_two_are_joined() -> None:
    joined = Conditioning(context=torch.zeros(1, 2, 3)).join(Conditioning(context=torch.ones(2, 2, 3)))
    assert joined.context is not None
    assert joined.context[:, 0, 0].tolist() == [0, 1, 1]
    assert joined.pooled is None


@pytest.mark.parametrize("swap", [False, True])
def test_a_field_of_only_one_of_two_is_refused_and_named(swap: bool) -> None:
    one, other = Conditioning(context=torch.zeros(1, 2, 3)), Conditioning(torch.zeros(1, 2, 3), torch.zeros(1, 4))
    one, other = (other, one) if swap else (one, other)
    with pytest.raises(ValueError, match="pooled"):
        one.join(other)
