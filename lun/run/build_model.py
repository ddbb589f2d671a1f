"""The model of a run: built from its configuration, without weights, for whoever asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ldm.util import instantiate_from_config

if TYPE_CHECKING:
    from ldm.models.base import TrainedModel


def build_model(config: Mapping[str, Any], **params: Any) -> TrainedModel:
    """The model that a run's configuration describes, whole or as it was stored; no network is built, nothing is read.

    params   take the place of what the configuration says
    Raises the `Fault` of a recipe that cannot be built.
    """
    recipe: Mapping[str, Any] = config["model"]
    model: TrainedModel = instantiate_from_config({**recipe, "params": {**(recipe.get("params") or {}), **params}})
    return model
