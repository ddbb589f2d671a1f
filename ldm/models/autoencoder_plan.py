"""Which parameters of an autoencoder train, without building it."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from ldm.models.model_parts import PartSize, TrainingPlan
from ldm.modules.networks.vae import build_autoencoder
from ldm.training.groups import Decision, named_weights
from ldm.training.rules import Rule, matching

HALVES = {"encoder": ("encoder", "quant_conv"), "decoder": ("decoder", "post_quant_conv")}
DECODER_ALONE = Rule("decoder alone", matching("encoder.*", "quant_conv.*"), {"train": False}, "model.params.train")


def networks_of(autoencoder: Any) -> dict[str, nn.Module]:
    """Encoder and decoder of diffusers' autoencoder, with the convolutions around a latent."""
    return {name: getattr(autoencoder, name) for half in HALVES.values() for name in half}


def planned(config: Mapping[str, Any], decide: Callable[[Mapping[str, nn.Module]], Decision]) -> TrainingPlan:
    """Both halves, and what of them trains; no memory is taken.

    config  arguments of diffusers' autoencoder
    decide  lets train what trains of networks by name
    """
    with torch.device("meta"):
        networks = networks_of(build_autoencoder(config))
    groups = decide(networks).groups(named_weights(networks))
    sizes = [PartSize.of(name, nn.ModuleList(networks[part] for part in half)) for name, half in HALVES.items()]
    return TrainingPlan(sizes, groups)
