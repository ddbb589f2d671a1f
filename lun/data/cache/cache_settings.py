"""What `data.params.cache` says, and the caches of moments and of captions that follow from it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import torch

from ldm.errors import Fault
from ldm.place import cache_root
from lun.data.cache.latents import fill as moments
from lun.data.cache.latents.cached import (
    CachedDataset,
    KeptMoments,
    NamedMoments,
    require_cacheable,
    wanted_entries,
)
from lun.data.cache.latents.contents import Contents
from lun.data.cache.latents.encoder import LatentEncoder
from lun.data.cache.latents.shard_fill import fill_stretches
from lun.data.cache.latents.shard_layout import ShardLayout, ShardMoments, lies_in_shards, missing_stretches
from lun.data.cache.latents.ways import WHERE, Ways, require_effect, ways_of
from lun.data.cache.shards.filling import Share, fill_together
from lun.data.cache.shards.shard_files import CacheShards, Writer
from lun.data.cache.text import fill as texts
from lun.data.cache.text.embedder import CachedText
from lun.data.cache.text.encoder import TextEncoder
from lun.data.dataset_protocol import DatasetAccess
from lun.data.order.law import Size

log = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "float16": torch.float16}


class CacheSettings(TypedDict, total=False):
    """See `Cache`."""

    dtype: Literal["float32", "float16"]
    folder: str
    text: bool | None
    variants: int


@dataclass(frozen=True)
class Cache:
    """Keep on disk what the first stage makes of all pictures, and a frozen text encoder of their captions.

    dtype     float32 keeps what they gave; float16 halves the size and rounds to 11 bits
    folder    where; by default `LUN_CACHE`, else the user's cache directory
    text      whether captions are kept too; null keeps them where no part of the text encoder trains, and true refuses
              to train one
    variants  how often each picture is kept whose cut, colours or turn are drawn, each time drawn anew; an access meets
              one of them, and disk and filling take so many times as much
    """

    dtype: str = "float32"
    folder: str | None = None
    text: bool | None = None
    variants: int = 1

    @classmethod
    def read(cls, settings: bool | Mapping[str, Any] | None) -> "Cache | None":
        """From a config; None where nothing is cached. Raises `Fault` CFG03 or CFG08."""
        if not isinstance(settings, Mapping):
            return cls() if settings else None
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                raise Fault("CFG03", f"unknown setting data.params.cache.{name}", why=f"it takes: {', '.join(known)}")
        made = cls(**settings)
        if made.dtype not in DTYPES:
            raise Fault(
                "CFG08", f"data.params.cache.dtype cannot be {made.dtype!r}", why=f"it takes {', '.join(DTYPES)}"
            )
        if isinstance(made.variants, bool) or not isinstance(made.variants, int) or made.variants < 1:
            what = f"data.params.cache.variants cannot be {made.variants!r}"
            raise Fault("CFG08", what, where=WHERE, why="it takes a whole number of at least 1")
        return made

    def require_effect(self, training: Any) -> None:
        """Raise `Fault` CFG08 for variants of what is never drawn; `training` may be several sets."""
        sets = getattr(training, "sets", None) or {"": training}
        require_effect(self.variants, [DatasetAccess(one).varied for one in sets.values()])

    def moments_of(
        self, dataset: Any, sizes: Mapping[Size | None, np.ndarray], encoder: LatentEncoder, workers: int, share: Share
    ) -> CachedDataset:
        """`dataset` with moments in place of pictures, computed now where they are missing.

        sizes  the examples that are read at each size. Raises `Fault` CFG08 for a dataset that cannot be cached.
        """
        require_cacheable(dataset)
        ways = ways_of(dataset, self.variants)
        kept = self._by_shard if lies_in_shards(dataset, sizes) else self._by_name
        return CachedDataset(dataset, ways, kept(dataset, ways, sizes, encoder, workers, share))

    def _by_name(
        self,
        dataset: Any,
        ways: Ways,
        sizes: Mapping[Size | None, np.ndarray],
        encoder: LatentEncoder,
        workers: int,
        share: Share,
    ) -> KeptMoments:
        contents = Contents(self.root / "contents")
        wanted = wanted_entries(dataset, ways, sizes, contents)
        contents.save()
        dtype, folder = DTYPES[self.dtype], self._folder("moments", encoder.identity())
        fill_together(
            lambda: moments.missing_entries(wanted, CacheShards(folder)),
            lambda missing: moments.fill(dataset, ways, missing, Writer(folder), encoder, dtype, workers),
            *(folder, moments.WHAT, share),
        )
        shards = CacheShards(folder)
        log.info("cache    %s moments in %s", f"{len(shards):,}", folder)
        return NamedMoments(wanted, shards)

    def _by_shard(
        self,
        dataset: Any,
        ways: Ways,
        sizes: Mapping[Size | None, np.ndarray],
        encoder: LatentEncoder,
        workers: int,
        share: Share,
    ) -> KeptMoments:
        layout = ShardLayout(dataset, ways, sizes)
        dtype, folder = DTYPES[self.dtype], self._folder("moments_by_shard", encoder.identity())
        fill_together(
            lambda: missing_stretches(layout, folder),
            lambda missing: fill_stretches(dataset, layout, missing, folder, encoder, dtype, workers),
            *(folder, "files of moments", share),
        )
        log.info("cache    moments of %s shards in %s", f"{len(layout.identities):,}", folder)
        return ShardMoments(layout, folder)

    def text_of(self, datasets: Sequence[Any], encoder: TextEncoder, share: Share) -> CachedText:
        """What takes the place of `encoder`: the settled captions of `datasets` are computed now where missing."""
        folder = self._folder("text", encoder.identity())
        dtype = DTYPES[self.dtype]
        fill_together(
            lambda: texts.missing_captions(datasets, CacheShards(folder)),
            lambda missing: texts.fill(missing, Writer(folder), encoder, dtype),
            *(folder, texts.WHAT, share),
        )
        shards = CacheShards(folder)
        log.info("cache    %s captions in %s", f"{len(shards):,}", folder)
        return CachedText(encoder, shards)

    @property
    def root(self) -> Path:
        return Path(self.folder).expanduser() if self.folder else cache_root()

    def _folder(self, kind: str, identity: str) -> Path:
        return self.root / kind / f"{identity[:32]}-{self.dtype}"
