"""What `data.params.cache` says, and the cache of one dataset that follows from it."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import torch

from ldm.errors import Fault
from lun.data.moments.cached import Cached, require_cacheable, wanted_entries
from lun.data.moments.contents import Contents
from lun.data.moments.encoder import Encoder
from lun.data.moments.fill import Share, fill_together
from lun.data.moments.place import cache_root
from lun.data.order import Size

log = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "float16": torch.float16}


class CacheSettings(TypedDict, total=False):
    """See `Cache`."""

    dtype: Literal["float32", "float16"]
    folder: str


@dataclass(frozen=True)
class Cache:
    """Keep the first stage's moments of all pictures on disk.

    dtype   float32 keeps what the first stage gave; float16 halves the size and rounds to 11 bits
    folder  where; by default `LUN_CACHE`, else the user's cache directory
    """

    dtype: str = "float32"
    folder: str | None = None

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
        return made

    def of(
        self, dataset: Any, sizes: Mapping[Size | None, np.ndarray], encoder: Encoder, workers: int, share: Share
    ) -> Cached:
        """`dataset` with moments in place of pictures, computed now where they are missing.

        sizes  the examples that are read at each size. Raises `Fault` CFG08 for a dataset that cannot be cached.
        """
        require_cacheable(dataset)
        root = Path(self.folder).expanduser() if self.folder else cache_root()
        contents = Contents(root / "contents")
        wanted = wanted_entries(dataset, sizes, contents)
        contents.save()
        folder = root / "moments" / f"{encoder.identity()[:32]}-{self.dtype}"
        shards = fill_together(dataset, wanted, encoder, folder, DTYPES[self.dtype], workers, share)
        log.info("cache    %d moments in %s", len(shards), folder)
        return Cached(dataset, wanted, shards)
