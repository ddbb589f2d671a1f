"""Networks by shape."""

import json
from typing import Any

import pytest
import torch
from support.tiny_networks import FAMILIES, tiny_networks
from torch import nn

from ldm.modules.encoders.clip import FrozenCLIPEmbedder
from ldm.modules.outline import from_outline, outline_of
from ldm.modules.streamed_blocks import blocks_of_network
from ldm.training.groups import named_layers, named_weights


def again(network: nn.Module) -> nn.Module:
    """From what a file gives back of its outline."""
    return from_outline(json.loads(json.dumps(outline_of(network))))


def described(tensors: Any) -> list[Any]:
    return [(name, tuple(one.shape), one.dtype, one.requires_grad) for name, one in tensors]


@pytest.fixture(scope="module", params=FAMILIES)
def networks(request: pytest.FixtureRequest) -> dict[str, nn.Module]:
    return tiny_networks(request.param)


def test_names_shapes_and_what_trains_are_the_networks_own(networks: dict[str, nn.Module]) -> None:
    for network in networks.values():
        network.requires_grad_(False)
        next(network.parameters()).requires_grad_(True)
        made = again(network)
        assert described(made.named_parameters()) == described(network.named_parameters())
        assert described(made.named_buffers()) == described(network.named_buffers())
        assert made.state_dict().keys() == network.state_dict().keys()
        assert all(tensor.is_meta for tensor in made.state_dict().values())


def test_rules_find_the_same_layers_and_weights(networks: dict[str, nn.Module]) -> None:
    made = {name: again(network) for name, network in networks.items()}
    assert named_weights(made).keys() == named_weights(networks).keys()
    for name, layer in named_layers(networks).items():
        own = named_layers(made)[name]
        assert type(own).__name__ == type(layer).__name__
        assert isinstance(own, nn.Linear | nn.Conv2d) == isinstance(layer, nn.Linear | nn.Conv2d)
        assert own.extra_repr() == layer.extra_repr() or type(layer).__module__.startswith(("diffusers", "transf"))


def test_blocks_that_can_be_streamed_are_the_networks_own(networks: dict[str, nn.Module]) -> None:
    for network in networks.values():
        network.requires_grad_(False)
        names = {id(module): name for name, module in network.named_modules()}
        made = again(network)
        own = {id(module): name for name, module in made.named_modules()}
        assert [own[id(one)] for one in blocks_of_network(made)] == [names[id(x)] for x in blocks_of_network(network)]


def test_a_network_of_ours_keeps_its_class_its_settings_and_what_it_says_of_itself() -> None:
    encoder = tiny_networks("SD 1.x")["text_encoder"]
    assert isinstance(encoder, FrozenCLIPEmbedder)
    encoder.layer = "penultimate"
    made: Any = again(encoder)
    assert type(made) is FrozenCLIPEmbedder
    assert (made.layer, made.max_length, made.from_scratch) == ("penultimate", encoder.max_length, encoder.from_scratch)
    assert made.idle() == [made.transformer.encoder.layers[-1]]


class Leaf(nn.Module):
    kind: str = "leaf"


class Tied(nn.Module):
    """As a library could write one: a tensor and a module at two places, and attributes of every kind."""

    is_gradient_checkpointing = False
    odd = object()

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Embedding(3, 2)
        self.second = nn.Linear(2, 3, bias=False)
        self.second.weight = self.first.weight
        self.leaf = Leaf()
        self.same = self.leaf
        self.absent: nn.Module | None = None
        self.register_module("none", None)
        self.register_parameter("no_scale", None)
        self.register_buffer("places", torch.zeros(2, dtype=torch.int64), persistent=False)
        self.register_buffer("kept", torch.zeros(1, dtype=torch.bfloat16))
        self.sizes = (1, [2, (3,)], {"a": (4.5, None)})
        self.call = len
        self.eval()


def test_what_is_held_in_common_stays_common_and_attributes_keep_their_kinds() -> None:
    made: Any = again(Tied())
    assert made.second.weight is made.first.weight
    assert made.same is made.leaf
    assert (made.absent, made.none, made.no_scale) == (None, None, None)
    assert made.state_dict().keys() == Tied().state_dict().keys()
    assert (made.places.dtype, made.kept.dtype) == (torch.int64, torch.bfloat16)
    assert made.sizes == (1, [2, (3,)], {"a": (4.5, None)})
    assert (made.is_gradient_checkpointing, made.leaf.kind, made.training) == (False, "leaf", False)
    assert not hasattr(made, "call")
    assert not hasattr(made, "odd")
    assert (type(made).__name__, type(made.leaf).__name__, type(made.first)) == ("Tied", "Leaf", nn.Embedding)


def test_an_outline_makes_no_class_of_another_package() -> None:
    outline = outline_of(nn.Linear(1, 1))
    outline["classes"][0]["base"] = "subprocess.Popen"
    with pytest.raises(ValueError, match="no class of an outline"):
        from_outline(outline)
