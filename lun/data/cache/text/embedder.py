"""Captions to conditioning, from the cache where it has them."""

import numpy as np
import torch

from ldm.diffusion.conditioning import Conditioning
from ldm.modules.encoders.captions import Caption
from lun.data.cache.shards.shard_files import CacheShards
from lun.data.cache.text.encoder import TextEncoder, columns_of
from lun.data.cache.text.fill import EMPTY, names_of


class CachedText:
    """Takes the place of a conditioner's embedder; a caption that the cache has not got is encoded as it comes."""

    def __init__(self, encoder: TextEncoder, shards: CacheShards) -> None:
        self.encoder = encoder
        self.shards = shards
        like = encoder([EMPTY])
        self.dtypes = {name: column.dtype for name, column in columns_of(like).items()}

    def __call__(self, captions: list[Caption]) -> Conditioning:
        """Row for row what the encoder would give, on its device and in its precision."""
        places = self.shards.locate(names_of(captions))
        known = places[:, 0] >= 0
        if known.all():
            return self._kept(places)
        made = self.encoder([captions[row] for row in np.flatnonzero(~known).tolist()])
        if not known.any():
            return made
        both = self._kept(places[known]).join(made)
        order = torch.from_numpy(np.argsort(np.argsort(~known, kind="stable"), kind="stable")).to(self.encoder.device)
        return both.map(lambda tensor: tensor[order])

    def _kept(self, places: np.ndarray) -> Conditioning:
        rows = [self.shards.read(place) for place in places.tolist()]
        return Conditioning(
            **{
                name: torch.stack([row[name] for row in rows]).to(self.encoder.device, dtype)
                for name, dtype in self.dtypes.items()
            }
        )
