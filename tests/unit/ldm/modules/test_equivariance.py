"""EQ regularisation: what is done to latents and pictures alike."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ldm.errors import Fault
from ldm.modules.equivariance import STILL, Equivariance, Motion

X = torch.randn(2, 3, 16, 24, generator=torch.Generator().manual_seed(0))


def encode(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 4)


def decode(z: Tensor) -> Tensor:
    return z.repeat_interleave(4, 2).repeat_interleave(4, 3)


@pytest.mark.parametrize("turns", range(4))
def test_turned_latents_of_a_coder_that_is_equivariant_decode_to_turned_pictures(turns: int) -> None:
    """Closed form: means of blocks, and blocks of means, commute with quarters of a circle."""
    motion = Motion(turns)
    smooth = decode(encode(X))
    torch.testing.assert_close(decode(motion(encode(smooth), 1)), motion(smooth, 4))
    assert torch.equal(motion(X, 4), torch.rot90(X, turns, (2, 3)))


def test_pictures_shrink_in_step_with_their_latents_and_keep_what_is_linear() -> None:
    motion = Motion(scale=0.5)
    assert motion(encode(X), 1).shape[2:] == (2, 3) and motion(X, 4).shape[2:] == (8, 12)
    ramp = torch.arange(24.0).expand(1, 1, 16, 24)
    inner = motion(ramp, 4)[0, 0, 3, 2:-2]
    torch.testing.assert_close(inner, 2 * torch.arange(2.0, 10) + 0.5)
    torch.testing.assert_close(Motion(1, 0.3)(torch.ones(1, 1, 65, 40), 8), torch.ones(1, 1, 16, 16))
    like = F.interpolate(X, (8, 12), mode="bilinear", antialias=True)
    torch.testing.assert_close(motion(X, 4), like)
    assert torch.equal(Motion(scale=0.99)(X, 4), X) and STILL(X, 4) is X


def test_each_step_has_a_motion_of_its_own_by_the_law() -> None:
    law = Equivariance(share=0.5, least_scale=0.25)
    drawn = [law(seed) for seed in range(400)]
    moved = [motion for motion in drawn if motion is not STILL]
    assert drawn == [law(seed) for seed in range(400)]
    assert 160 < len(moved) < 240 and {motion.turns for motion in moved} == {0, 1, 2, 3}
    assert 0.25 <= min(motion.scale for motion in moved) < 0.3 and 0.9 < max(motion.scale for motion in moved) <= 1
    assert {motion.turns for motion in map(Equivariance(rotate=False, share=1), range(9))} == {0}
    assert Equivariance(share=0)(3) is STILL
    with pytest.raises(Fault, match="least_scale of Equivariance cannot be 0"):
        Equivariance(least_scale=0)
