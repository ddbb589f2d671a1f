"""What `data.params.cache` says, and the caches of moments and of captions that follow from it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import torch

from ldm.errors import Fault
from ldm.place import cache_root
from lun.data.cache.latents import fill as moments
from lun.data.cache.latents.cached import CachedDataset, require_cacheable, wanted_entries
from lun.data.cache.latents.contents import Contents
from lun.data.cache.latents.encoder import LatentEncoder
from lun.data.cache.latents.ways import WHERE, require_effect, ways_of
from lun.data.cache.shards.filling import Share, fill_together
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
        contents = Contents(self.root / "contents")
        ways = ways_of(dataset, self.variants)
        wanted = wanted_entries(dataset, ways, sizes, contents)
        contents.save()
        dtype, folder = DTYPES[self.dtype], self._folder("moments", encoder.identity())
        fill = partial(moments.fill, dataset, ways, encode=encoder, dtype=dtype, workers=workers)
        shards = fill_together(partial(moments.missing_entries, wanted), fill, folder, moments.WHAT, share)
        log.info("cache    %s moments in %s", f"{len(shards):,}", folder)
        return CachedDataset(dataset, ways, wanted, shards)

    def text_of(self, datasets: Sequence[Any], encoder: TextEncoder, share: Share) -> CachedText:
        """What takes the place of `encoder`: the settled captions of `datasets` are computed now where missing."""
        folder = self._folder("text", encoder.identity())
        fill = partial(texts.fill, encode=encoder, dtype=DTYPES[self.dtype])
        shards = fill_together(partial(texts.missing_captions, datasets), fill, folder, texts.WHAT, share)
        log.info("cache    %s captions in %s", f"{len(shards):,}", folder)
        return CachedText(encoder, shards)

    @property
    def root(self) -> Path:
        return Path(self.folder).expanduser() if self.folder else cache_root()

    def _folder(self, kind: str, identity: str) -> Path:
        return self.root / kind / f"{identity[:32]}-{self.dtype}"
