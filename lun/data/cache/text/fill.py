"""Filling the cache of captions: each different one is encoded once."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import torch

from ldm.diffusion.conditioning import Conditioning
from ldm.errors import Fault
from ldm.modules.encoders.captions import Caption
from lun.data.cache.shards.filling import steadily
from lun.data.cache.shards.shard_files import ENTRY_BYTES, CacheShards, Writer
from lun.data.cache.text.encoder import rows_of
from lun.data.dataset_protocol import DatasetAccess
from lun.data.rejects import OF_ONE_EXAMPLE

BATCH = 16
WHAT = "captions"
_AT_ONCE = 4096
BETWEEN = "\0"
EMPTY = ""
"""What the conditioner drops captions for, and what guidance steers away from."""


def names_of(captions: Iterable[Caption]) -> np.ndarray:
    """(m, 16): the name under which each caption is kept, which its very text decides, or those of all encoders."""
    texts = (caption if isinstance(caption, str) else BETWEEN.join(caption) for caption in captions)
    digests = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:ENTRY_BYTES] for text in texts)
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, ENTRY_BYTES)


def settled_captions(dataset: Any) -> Iterator[Caption]:
    """The captions of a dataset that come up word for word time and again; none of one that does not give them."""
    access = DatasetAccess(dataset)
    for index in range(len(access) if access.has("settled_captions") else 0):
        try:
            yield from access.settled_captions(index)
        except Fault as fault:
            if fault.id not in OF_ONE_EXAMPLE:
                raise  # one file that cannot be read is reported and replaced when its turn comes


def in_portions(captions: Iterable[Caption], count: int) -> Iterator[list[Caption]]:
    """So many at a time, the last ones fewer."""
    stream = iter(captions)
    while portion := list(islice(stream, count)):
        yield portion


def missing_captions(datasets: Sequence[Any], shards: CacheShards) -> list[Caption]:
    """What the cache has not got, each caption once."""
    missing: dict[Caption, None] = {}
    for captions in in_portions(chain([EMPTY], *map(settled_captions, datasets)), _AT_ONCE):
        absent = shards.locate(names_of(captions))[:, 0] < 0
        missing |= dict.fromkeys(captions[row] for row in np.flatnonzero(absent).tolist())
    return list(missing)


def fill(
    missing: Sequence[Caption], writer: Writer, encode: Callable[[list[Caption]], Conditioning], dtype: torch.dtype
) -> None:
    """Encode `missing` and write it. Raises `Fault` MOD03 for what is not finite, DSK01."""

    def add(captions: list[Caption]) -> int:
        rows = rows_of(encode(captions), dtype)
        for name, caption, row in zip(names_of(captions), captions, rows, strict=True):
            if not all(tensor.isfinite().all() for tensor in row.values()):
                raise _not_finite(caption)
            writer.add(name.tobytes(), row)
        return len(captions)

    steadily(in_portions(missing, BATCH), add, writer, len(missing), WHAT)


def _not_finite(caption: Caption) -> Fault:
    return Fault(
        "MOD03",
        "the text encoder gives numbers that are not finite",
        where=f"caption {caption[:80]!r}",
        why="its weights do not suit their precision, or that of the cache",
        fix="'data.params.cache={dtype: float32}', or another text encoder",
    )
