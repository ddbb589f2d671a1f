"""Data that samples are compared with: some pictures of it, evenly spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ldm.errors import Fault
from lun.config.signature import accepted_by
from lun.config.targets import find_target
from lun.data.building import build_dataset
from lun.data.whole_pictures import whole_pictures
from lun.features.scoring import Encoders, Features

SIDE = 512
"""Pixels a side that pictures have at least, where their files do: more than encoders look at."""


@dataclass(frozen=True)
class ComparedData:
    """A data set, and which of its pictures are compared."""

    dataset: Any
    chosen: range

    @classmethod
    def of(cls, recipe: Mapping[str, Any], split: str, most: int, samples: int) -> ComparedData:
        """`most` pictures of a recipe, for a number of samples. Raises `Fault` DAT02 for less than two of either."""
        params = dict(recipe.get("params") or {})
        if "allow_empty_captions" in accepted_by(find_target(recipe["target"])).parameters:
            params["allow_empty_captions"] = True
        dataset = build_dataset({**recipe, "params": params}, split)
        chosen = range(0, len(dataset), -(-len(dataset) // most))
        if min(samples, len(chosen)) < 2:
            what = f"a distance takes two pictures or more: {samples} samples, {len(chosen)} of the data"
            raise Fault("DAT02", what, fix="more of them; without data the CLIP score is measured")
        return cls(dataset, chosen)

    def features(self, encoders: Encoders) -> Features:
        """What the encoders make of them."""
        return encoders.of_pictures(whole_pictures(self.dataset, self.chosen, SIDE))
