"""Which networks compute activations twice, and those that are told to."""

import pytest
from support.sd3 import tiny_mmdit
from support.tiny_networks import SHAPE
from torch import nn
from transformers import CLIPTextConfig, CLIPTextModel

from ldm.modules.gradient_checkpointing import can_compute_twice, compute_twice, computes_twice
from ldm.modules.networks.unet import UNet


@pytest.mark.parametrize("network", [UNet(from_scratch=True, **SHAPE), tiny_mmdit()], ids=["UNet", "MMDiT"])
def test_a_network_that_trains_is_told_to_compute_twice(network: nn.Module) -> None:
    assert any(map(can_compute_twice, network.modules())) and not computes_twice(network)
    compute_twice(network)
    assert computes_twice(network)


def test_a_text_encoder_is_told_in_the_way_of_its_library_unless_it_is_frozen() -> None:
    encoder = CLIPTextModel(CLIPTextConfig(hidden_size=8, intermediate_size=8, num_hidden_layers=1, vocab_size=9))
    compute_twice(encoder.requires_grad_(False))
    assert not computes_twice(encoder)
    compute_twice(encoder.requires_grad_(True))
    assert computes_twice(encoder)


def test_a_network_without_the_switch_never_does() -> None:
    network = nn.Sequential(nn.Linear(2, 2))
    compute_twice(network)
    assert not computes_twice(network) and not any(map(can_compute_twice, network.modules()))
