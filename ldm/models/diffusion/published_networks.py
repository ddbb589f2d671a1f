"""The networks of a published model that adapters are added to or extracted from, and the model with them changed."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import nn

from ldm.convert.model import Model
from ldm.errors import Fault
from ldm.files.load import fit
from ldm.files.state import State
from ldm.keys.split_checkpoint import COND_STAGE, UNET, split_parts
from ldm.models.diffusion.published import text_encoder_recipe, unet_recipe
from ldm.modules.meta_init import meta_init
from ldm.util import Recipe, instantiate_from_config


def published_networks(model: Model) -> dict[str, nn.Module]:
    """The networks of a model that adapters may be added to, those that it holds, by the first word of names in rules.

    Their weights are the model's own tensors in their own dtypes, not copies. Raises `Fault` MOD03 for what cannot be
    built.
    """
    if model.family is None:
        raise Fault("MOD03", f"{model.source} is an autoencoder alone, which takes no adapters")
    split = split_parts(model.state)
    networks: dict[str, nn.Module] = {}
    if split.unet:
        networks["unet"] = _of_tensors(unet_recipe(model, model.family), split.unet, model.source)
    if model.encoders:
        networks["text_encoder"] = _of_tensors(text_encoder_recipe(model, model.family), split.cond_stage, model.source)
    return networks


def with_weights(model: Model, networks: Mapping[str, nn.Module], dtype: torch.dtype | None = None) -> Model:
    """The model with what has changed of networks that were its own, in `dtype` or in that which it had."""
    before = published_networks(model)
    state = dict(model.state)
    for name, network in networks.items():
        prefix = UNET if name == "unet" else str(getattr(network, "disk_prefix", COND_STAGE))
        old, new = (one.to_disk(dict(one.state_dict())) for one in (before[name], network))  # type: ignore[operator]
        for key, value in new.items():
            if not torch.equal(value, old[key]):
                own = model.state[prefix + key]
                state[prefix + key] = value.detach().reshape(own.shape).to(dtype or own.dtype)
    return replace(model, state=state)


def _of_tensors(recipe: Recipe, state: State, source: str) -> nn.Module:
    with meta_init():
        network: nn.Module = instantiate_from_config(recipe)
    own, comparison = fit(network, state)
    if not comparison.fits:
        raise Fault("MOD03", f"{source} is not whole, or not what it seems", why=comparison.render())
    network.load_state_dict(own, strict=False, assign=True)
    return network
