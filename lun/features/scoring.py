"""Samples by their features: how well they fit captions, how far they are from data, what they copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

import torch
from PIL.Image import Image
from torch import Tensor

from lun.features.distances import NearestFeatures, clip_scores, cmmd, frechet_distance, nearest_features
from lun.features.image_encoder import BATCH, CLIP, DINO, OTHER, ClipEncoder, DinoEncoder, ImageEncoder

Features = Mapping[str, Tensor]
"""(n, d) by the name of their encoder: `clip`, `dino`, `features`."""
LOOKS = ("dino", "features", "clip")
"""Encoders by how well they distinguish a copy from a picture of the same thing."""


@dataclass(frozen=True)
class Encoders:
    """Those that a person has given, each of which makes further numbers; without one nothing is computed for it."""

    clip: ClipEncoder | None = None
    dino: DinoEncoder | None = None
    features: ImageEncoder | None = None

    @classmethod
    def load(cls, clip: str | None, dino: str | None, features: str | None, device: str | None = None) -> Encoders:
        """Of folders. Raises `Fault` MOD01, MOD02, MOD05 or DEV01."""
        return cls(
            None if clip is None else ClipEncoder(clip, CLIP, device),
            None if dino is None else DinoEncoder(dino, DINO, device),
            None if features is None else ImageEncoder(features, OTHER, device),
        )

    def of_pictures(self, pictures: Iterable[Image]) -> Features:
        """What each encoder makes of pictures that come one by one, some of which are held at a time."""
        known = {name: one for name in LOOKS if (one := getattr(self, name)) is not None}
        parts: dict[str, list[Tensor]] = {name: [] for name in known}
        waiting = iter(pictures)
        while some := list(islice(waiting, BATCH)):
            for name, encoder in known.items():
                parts[name].append(encoder(some))
        return {name: torch.cat(some) if some else torch.empty(0, 1) for name, some in parts.items()}

    def of_captions(self, captions: list[str]) -> Tensor | None:
        """(n, d); None without CLIP."""
        return None if self.clip is None else self.clip.texts(captions)


def scores_of(samples: Features, data: Features | None, captions: Tensor | None) -> dict[str, float]:
    """The numbers that these features give; `captions` (n, d) are those of the samples, in their order.

    clip_score             mean fit of samples to their captions, up to 100
    cmmd                   distance from the data in CLIP's embeddings
    fd_dino, fd_features   Frechet distance from the data in the features of each
    nearest_*              mean cosine of each sample with the picture of the data that is nearest to it
    """
    numbers = {}
    if captions is not None:
        numbers["clip_score"] = float(clip_scores(samples["clip"], captions).mean())
    for name, others in (data or {}).items():
        own = samples[name]
        if name == "clip":
            numbers["cmmd"] = cmmd(own, others)
        else:
            numbers[f"fd_{name}"] = frechet_distance(own, others)
        numbers[f"nearest_{name}"] = float(nearest_features(own, others).cosine.mean())
    return numbers


def nearest_pictures(samples: Features, data: Features) -> NearestFeatures:
    """Of each sample the picture of the data nearest to it, by the encoder that recognises copies best."""
    name = next(name for name in LOOKS if name in samples)
    return nearest_features(samples[name], data[name])
