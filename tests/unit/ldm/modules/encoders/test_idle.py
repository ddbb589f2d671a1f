"""A trained encoder trains what a loss can reach and nothing else, whichever of its states are read."""

import importlib
import inspect
import pkgutil
from typing import Any

import pytest
import torch
from support.models import tiny_model
from support.sd3 import T5, VOCABULARY
from torch import nn

from ldm.modules import encoders
from ldm.training.groups import named_weights

NARROW = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
LAYERS: dict[str, list[dict[str, Any]]] = {
    "HashedWordEmbedder": [{"dim": 8, "max_length": 4}],
    "FrozenCLIPEmbedder": [{"config": NARROW, "layer": layer} for layer in ("last", "penultimate", "hidden")],
    "FrozenOpenCLIPEmbedder": [{"config": NARROW}],
    "FrozenOpenCLIPEmbedder2": [{"config": NARROW}],
    "SDXLConditioner": [{"clip": NARROW, "open_clip": NARROW}],
    "SD3Conditioner": [
        {"clip": NARROW, "open_clip": NARROW, "t5": T5, "tokenizer_3": str(VOCABULARY)},
        {"clip": None, "open_clip": NARROW, "t5": T5, "tokenizer_3": str(VOCABULARY)},
    ],
}


def shipped() -> dict[str, type[nn.Module]]:
    """All encoders that a config can name."""
    found = {}
    for module in pkgutil.iter_modules(encoders.__path__, encoders.__name__ + "."):
        for name, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = kind.__module__ == module.name and issubclass(kind, nn.Module)
            if own and "from_scratch" in inspect.signature(kind).parameters and "forward" in vars(kind):
                found[name] = kind
    return found


def decided(encoder: nn.Module, trains: bool) -> nn.Module:
    """The encoder of a model that says whether it trains."""
    tiny_model(cond_stage_trainable=trains).decide_training({"text_encoder": encoder})
    return encoder


@pytest.mark.parametrize(
    ("name", "params"),
    [(name, params) for name, each in LAYERS.items() for params in each],
    ids=lambda value: str(value),
)
def test_every_weight_that_trains_gets_a_gradient_and_no_other_could(name: str, params: dict[str, Any]) -> None:
    torch.manual_seed(0)
    encoder = decided(shipped()[name](from_scratch=True, **params), trains=True)
    trained = {key for key, weight in encoder.named_parameters() if weight.requires_grad}
    encoder.requires_grad_(True)
    told = encoder(["a red fox", "b"])
    loss = sum(states.square().sum() for states in (told.context, told.pooled) if states is not None)
    loss.backward()
    assert {key for key, weight in encoder.named_parameters() if weight.grad is not None} == trained


@pytest.mark.parametrize(("name", "count"), [("SDXLConditioner", 2), ("SD3Conditioner", 3)])
def test_each_of_several_encoders_has_a_rate_of_its_own_and_0_freezes(name: str, count: int) -> None:
    encoder = shipped()[name](from_scratch=True, **LAYERS[name][0])
    rules = {"one": {"match": "text_encoder.*", "lr": "0.5x"}, "two": {"match": "text_encoder_2.*", "lr": 0}}
    if count == 3:
        rules["three"] = {"match": "text_encoder_3.*", "lr": 1.0e-6}
    recipe = {"target": "ldm.training.rules.Rules", "params": {"rules": rules}}
    networks = {"text_encoder": encoder}
    decision = tiny_model(cond_stage_trainable=True, training_config=recipe).decide_training(networks)
    weights = named_weights(networks)
    assert {group.rate(1e-3) for group in decision.groups(weights)} == {5e-4, 1e-6} if count == 3 else {5e-4}
    for key, weight in weights.items():
        idle = any(weight is other for part in encoder.idle() for other in part.parameters())
        assert weight.requires_grad == (not key.startswith("text_encoder_2.") and not idle), key


def test_no_encoder_is_left_out() -> None:
    assert shipped().keys() == LAYERS.keys()


def test_a_frozen_encoder_trains_nothing() -> None:
    encoder = decided(shipped()["FrozenCLIPEmbedder"](from_scratch=True, config=NARROW), trains=False)
    assert not any(weight.requires_grad for weight in encoder.parameters())
