"""Adapters into other adapters: respelt, at other ranks and strengths, joined, in part; and out of whole models."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ldm.adapters.adapter_files import Layers, from_file, is_adapter_file
from ldm.adapters.adapter_names import names_in_files
from ldm.adapters.adapter_set import AdapterSet, require_matches
from ldm.adapters.approximation import Approximation, approximate_adapters, join, total_error
from ldm.adapters.arithmetic import shape_of
from ldm.adapters.decomposition import RankRule
from ldm.adapters.extraction import extract
from ldm.adapters.layer import is_adaptable
from ldm.convert.model import Model
from ldm.diffusion.prediction_names import PredictionType
from ldm.errors import Fault
from ldm.files.read import Content, read_content
from ldm.keys.split_checkpoint import FIRST_STAGE
from ldm.models.diffusion.published_networks import published_networks
from ldm.training.groups import named_layers
from ldm.training.rules import matching
from lun.convert.known_layers import known_adapters
from lun.weights.applied_adapters import AppliedAdapter

log = logging.getLogger(__name__)
OF_OLD_TENSORS = ("sshs_", "modelspec.hash", "lun.extracted.")
"""Beginnings of what a file says of the numbers in it."""


@dataclass(frozen=True)
class MadeAdapters:
    """Adapters that are ready to be written, and what their file says of how they came about."""

    adapters: AdapterSet
    metadata: Mapping[str, str]


def adapter_content(source: str) -> tuple[AppliedAdapter, Content] | None:
    """A file of adapters, or `FILE:STRENGTH`, with its tensors; None for whatever else `source` is."""
    try:
        given = AppliedAdapter.parse(source)
        content = read_content(given.path) if given.path.is_file() else None
    except Fault:  # whoever opens it as a model says what is wrong with it
        return None
    return (given, content) if content is not None and is_adapter_file(content.state) else None


def of_file(given: AppliedAdapter, content: Content) -> MadeAdapters:
    """Its adapters, at full strength. Raises `Fault` MOD03 for those of a model that is not known here."""
    texts = {key: value for key, value in content.facts.items() if isinstance(value, str)}
    kept = {key: value for key, value in texts.items() if not key.startswith(OF_OLD_TENSORS)}
    return MadeAdapters(known_adapters(content.state, texts, str(given.path)), kept)


def reworked(
    made: MadeAdapters,
    strength: float,
    others: Sequence[AppliedAdapter],
    rule: RankRule | None,
    globs: Sequence[str],
    dtype: torch.dtype | None,
) -> MadeAdapters:
    """`made` at a strength, joined with other files' adapters, some layers of it, as LoRAs of other ranks.

    Raises `Fault` MOD03 for files of another family and what `join` and `approximate_adapters` refuse.
    """
    parts = {layer: [(tensors, strength)] for layer, tensors in made.adapters.layers.items()}
    for one in others:
        for layer, tensors in _layers_of(one, made.adapters).items():
            parts.setdefault(layer, []).append((tensors, one.strength))
    whole = replace(made.adapters, layers={layer: dict(own[0][0]) for layer, own in parts.items()}).among(*globs)
    parts = {layer: parts[layer] for layer in whole.layers}
    said = {"lun.joined": " + ".join(str(one) for one in others)} if others else {}
    if rule is None:
        layers: Layers = {layer: join(own, layer) for layer, own in parts.items()}
        return MadeAdapters(replace(whole, layers=layers), {**made.metadata, **said})
    networks: dict[str, Any] = named_layers(whole.networks)
    approximations = {}
    for layer, own in parts.items():
        shape = shape_of(own[0][0], networks[layer].weight.shape[2:])
        approximations[layer] = approximate_adapters(own, shape, rule, dtype, layer)
    return _approximated(whole, approximations, {**made.metadata, **said}, rule)


def extracted(
    tuned: Model, base: Model, rule: RankRule, globs: Sequence[str], dtype: torch.dtype | None
) -> MadeAdapters:
    """The difference of two models as LoRAs. Raises `Fault` MOD03 as `extract` does."""
    configs = {**tuned.facts.configs, **base.facts.configs}  # of a run: what shapes do not show
    described = replace(base, facts=replace(base.facts, configs=configs))
    new, old = published_networks(tuned), published_networks(described)
    shared = [name for name in old if name in new]
    for name in sorted(new.keys() ^ old.keys()):
        log.warning("only one of the two models has the %s, which is left out", name)
    if "unet" not in shared or base.family is None:
        raise Fault("MOD03", "the two models have no UNet in common", why="by it files of adapters know their family")
    new, old = {name: new[name] for name in shared}, {name: old[name] for name in shared}
    layers = {name: layer for name, layer in named_layers(old).items() if is_adaptable(layer)}
    require_matches(tuple(globs), layers)
    found = extract(new, old, rule, matching(*globs) if globs else lambda name: True, dtype)
    _log_left_out(found.left_out, found.whole_error, tuned, base)
    prediction: PredictionType | None = tuned.facts.prediction
    adapters = AdapterSet({}, old, base.family, base.unet, prediction)
    names = {"lun.extracted.from": Path(tuned.source).name, "lun.extracted.base": Path(base.source).name}
    metadata = names | {"lun.extracted.whole_error": f"{found.whole_error:.6g}"}
    return _approximated(adapters, found.layers, metadata, rule)


def _approximated(
    adapters: AdapterSet, layers: Mapping[str, Approximation], metadata: Mapping[str, str], rule: RankRule
) -> MadeAdapters:
    for name, one in layers.items():
        log.info("layer    %s: rank %d, error %.4g", name, one.rank, one.error)
    total = total_error(layers.values())
    log.info("error    %.4g in all, of %d layers (|left out| / |change|)", total, len(layers))
    errors = json.dumps({name: float(f"{one.error:.4g}") for name, one in layers.items()})
    said = {"lun.extracted.rank": str(rule), "lun.extracted.error": f"{total:.6g}", "lun.extracted.errors": errors}
    made = replace(adapters, layers={name: one.tensors for name, one in layers.items()})
    return MadeAdapters(made, {**metadata, **said})


def _log_left_out(left_out: Mapping[str, float], error: float, tuned: Model, base: Model) -> None:
    if left_out:
        what = (len(left_out), min(left_out), error)
        log.warning("%d weights differ that are left out, first %s: with them the error is %.4g", *what)
    if any(not torch.equal(value, base.state[key]) for key, value in _first_stage(tuned).items() if key in base.state):
        log.warning("their VAEs differ, of which adapters hold nothing")


def _first_stage(model: Model) -> dict[str, Any]:
    return {key: value for key, value in model.state.items() if key.startswith(FIRST_STAGE)}


def _layers_of(given: AppliedAdapter, first: AdapterSet) -> Layers:
    """The adapters of a file that is joined with `first`. Raises `Fault` MOD03 for one of another model."""
    state = read_content(given.path).state
    if not is_adapter_file(state):
        raise Fault("MOD03", f"{given.path} is no file of adapters", where="--adapter")
    assert first.family.adapters is not None
    layers = from_file(state, names_in_files(first.networks, first.family.adapters), str(given.path))
    for name, tensors in layers.items():
        own = first.layers.get(name)
        if own is not None and shape_of(own, ()) != shape_of(tensors, ()):
            why = (
                f"{name} is a matrix of {list(shape_of(tensors, ()))} there, of {list(shape_of(own, ()))} in the other"
            )
            raise Fault("MOD03", f"{given.path} is of a model of other sizes", where="--adapter", why=why)
    return layers
