"""Models of columns, opened one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ldm.adapters.layer import adapters_in
from ldm.adapters.switching import merge_at
from ldm.errors import Fault
from ldm.training.groups import named_layers
from lun.checkpoints.atomic import unreadable
from lun.compare.compared_columns import Opening
from lun.posthoc_ema.averaged_model import with_average
from lun.posthoc_ema.reconstructing import average_of
from lun.sample.opened_model import SampledModel, open_source
from lun.weights.applied_adapters import AppliedAdapter, apply_adapters


def open_column(opening: Opening, encoders: Mapping[str, str | None], tokenizer: str | None) -> SampledModel:
    """The model of an opening on the CPU, in evaluation mode; `encoders` and `tokenizer` as `open_source` takes them.

    Raises `Fault` MOD01 to MOD06 for what cannot be opened, MOD02 for a checkpoint that is not as it was written, CFG08
    for a strength of adapters that are not there.
    """
    source, weights = opening.source, opening.weights
    if source.listed and (reason := unreadable(Path(source.given))):
        raise Fault("MOD02", f"{source.given} is damaged", why=reason)
    averaged = False if weights.width is not None else weights.averaged
    alone = source.run is None
    opened = open_source(source.given, averaged, encoders if alone else {}, tokenizer if alone else None)
    if weights.width is not None:
        opened = _of_width(opened, opening, weights.width)
    adapters = [opening.adapter] if opening.adapter else []
    strength = 1.0 if opening.strength is None else opening.strength
    networks = opened.model.trainable_networks()
    layers = named_layers(networks) if opening.strength is not None else {}
    own_adapters = len(list(adapters_in(layers)))
    if strength != 1.0:  # merged, a layer rounds otherwise than with its adapter beside it
        merge_at(layers, strength)
    if opening.strength is not None and not adapters and not own_adapters:
        what = f"--strength has no effect: {source.given} has no adapters"
        raise Fault("CFG08", what, where="--strength", fix="--adapter FILE, or leave it out")
    applied = [AppliedAdapter(adapter.path, adapter.strength * strength) for adapter in adapters]
    apply_adapters(networks, applied)
    of_run = [f"its own:{strength:g}"] if own_adapters else []
    return replace(opened, adapters=(*of_run, *map(str, applied)))


def _of_width(opened: SampledModel, opening: Opening, width: float) -> SampledModel:
    """The model with an average made of the snapshots of its run up to its checkpoint."""
    run = opening.source.run
    assert run is not None
    with average_of(str(run.path), width, opening.source.step) as average:
        return with_average(opened, average, f"{width:g}")
