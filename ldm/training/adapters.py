"""Adapters: small networks that are added to the layers of others, and train in their place."""

from collections.abc import Mapping
from typing import Protocol

from torch import nn

from ldm.admission import admitted, is_kind
from ldm.errors import Fault
from ldm.training.groups import named_weights
from ldm.training.rules import Rule
from ldm.util import Recipe, instantiate_from_config

WHERE = "model.params.adapter_config"
CHILD = "adapter"
"""What a layer calls the child that was added to it; all that lies below is no part of the base."""


class PlacesAdapters(Protocol):
    """What `adapter_config` describes: a callable that adds child modules to layers of the model's networks.

    It leaves all other parameters where they are, so that their names stay, and has a layer's new children take effect
    by a forward hook or a replaced `forward`. Called once a process, when all weights are read, and for the plan of a
    run with networks on the meta device, whose numbers it must not look at.
    """

    def __call__(self, networks: Mapping[str, nn.Module], seed: int) -> None:
        """networks  by the first word of their parameters' names in rules: `unet`, `text_encoder`
        seed      to draw initial values with; the same at every start of a run
        """


def adapter_rules(recipe: Recipe, networks: Mapping[str, nn.Module], seed: int) -> list[Rule]:
    """Let the adapters of a recipe be added, and return their default rules: they train, and nothing else does.

    Raises `Fault` CFG08 where nothing was added, or a parameter lost its name.
    """
    before = named_weights(networks).keys()
    if is_kind(admitted(recipe["target"]), frozenset({"torch.nn.modules.module.Module"})):
        fix = "{target: ldm.adapters.Adapters, params: {rules: {mine: {match: 'unet.*', kind: {target: ...}}}}}"
        raise Fault("CFG08", f"{recipe['target']} is a network and places no adapters", where=WHERE, fix=fix)
    adapters: PlacesAdapters = instantiate_from_config(recipe)
    adapters(networks, seed)
    after = named_weights(networks).keys()
    added, lost = after - before, before - after
    if lost:
        why = f"{len(lost)} parameters are no longer where they were, first {min(lost)}"
        raise Fault("CFG08", f"{recipe['target']} does more than add to layers", where=WHERE, why=why)
    if not added:
        raise Fault("CFG08", f"{recipe['target']} added no parameter to any layer", where=WHERE)
    return [
        Rule("adapters", added.__contains__, {"train": True}),
        Rule("adapters' base", before.__contains__, {"train": False}),
    ]


def is_of_adapter(name: str) -> bool:
    """Whether a parameter or buffer of that name lies in an adapter."""
    return CHILD in name.split(".")
