"""The discriminator's shape and names, and its losses by hand."""

import math

import pytest
import torch

from ldm.errors import Fault
from ldm.modules.losses.discriminator import NLayerDiscriminator, generator_loss, hinge, vanilla


def test_names_and_shapes_are_those_of_compvis_checkpoints() -> None:
    with torch.device("meta"):
        state = NLayerDiscriminator().state_dict()
    shapes = {name: tuple(value.shape) for name, value in state.items() if "running" not in name and "num_" not in name}
    assert shapes == {
        "main.0.weight": (64, 3, 4, 4),
        "main.0.bias": (64,),
        "main.2.weight": (128, 64, 4, 4),
        "main.3.weight": (128,),
        "main.3.bias": (128,),
        "main.5.weight": (256, 128, 4, 4),
        "main.6.weight": (256,),
        "main.6.bias": (256,),
        "main.8.weight": (512, 256, 4, 4),
        "main.9.weight": (512,),
        "main.9.bias": (512,),
        "main.11.weight": (1, 512, 4, 4),
        "main.11.bias": (1,),
    }


@pytest.mark.parametrize(("layers", "side", "patches"), [(3, 256, 30), (2, 32, 6), (1, 8, 2)])
def test_there_is_a_logit_for_each_patch(layers: int, side: int, patches: int) -> None:
    discriminator = NLayerDiscriminator(ndf=4, n_layers=layers)
    assert discriminator(torch.zeros(2, 3, side, side)).shape == (2, 1, patches, patches)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_smallest_picture_leaves_one_patch_and_a_smaller_one_is_refused(layers: int) -> None:
    discriminator = NLayerDiscriminator(ndf=4, n_layers=layers).eval()
    side = discriminator.smallest
    discriminator.require_room(torch.zeros(1, 3, side, 2 * side))
    assert discriminator(torch.zeros(1, 3, side, side)).shape == (1, 1, 1, 1)
    with pytest.raises(Fault, match=f"too small for a discriminator of {layers} layers") as caught:
        discriminator.require_room(torch.zeros(1, 3, 2 * side, side - 1))
    assert f"at least {side} pixels" in str(caught.value.why)
    assert str(caught.value.fix).startswith("larger pictures" if layers == 1 else f"disc_num_layers: {layers - 1}")


def test_weights_start_small() -> None:
    torch.manual_seed(0)
    weight = NLayerDiscriminator().main[8].weight
    assert weight.std().item() == pytest.approx(0.02, rel=0.01)


def test_hinge_by_hand() -> None:
    real, fake = torch.tensor([2.0, 0.5, -1.0]), torch.tensor([-3.0, 0.0, 1.0])
    assert hinge(real, fake).item() == pytest.approx(0.5 * ((0 + 0.5 + 2) / 3 + (0 + 1 + 2) / 3))


def test_vanilla_by_hand() -> None:
    real, fake = torch.tensor([1.0]), torch.tensor([-2.0])
    by_hand = 0.5 * (math.log1p(math.exp(-1.0)) + math.log1p(math.exp(-2.0)))
    assert vanilla(real, fake).item() == pytest.approx(by_hand)


def test_the_generator_raises_the_mean_logit() -> None:
    assert generator_loss(torch.tensor([1.0, 2.0, 6.0])).item() == -3.0
