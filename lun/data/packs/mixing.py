"""How well the shards of a packed set are mixed: what a batch of few of them is like, beside one of all.

The variance of a batch's mean is 1 + rho (B - 1) / W times that of a full shuffle, where B examples come from W shards
and rho is the share of the variance that lies between shards (the intraclass correlation): 0 for a set that was mixed
when it was packed, 1 for one whose shards are alike inside.
"""

from dataclasses import dataclass
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from lun.data.packs.shard_samples import Samples

SHARDS_READ = 64
RECORDS_OF_A_SHARD = 50
TOLERATED = 0.05
"""By how much the variance may be larger than that of a full shuffle."""


@dataclass(frozen=True)
class ShardMixing:
    """rho of each column that is known of pictures: `aspect`, `pixels`, `score`, `tags` (how many)."""

    rho: dict[str, float]
    shards: int

    def window(self, batch: int) -> int:
        """The least window that mixes a step of `batch` examples as well as a full shuffle does, nearly."""
        worst = max(self.rho.values(), default=0.0)
        return max(1, min(self.shards, ceil(worst * (batch - 1) / TOLERATED)))


def mixing_of(samples: Samples) -> ShardMixing:
    """From the indexes of up to 64 shards, spread over all, and up to 50 records of each."""
    lengths = samples.table.lengths
    shards = np.unique(np.linspace(0, len(lengths) - 1, min(SHARDS_READ, len(lengths))).astype(int)).tolist()
    columns: dict[str, list[list[float]]] = {"aspect": [], "pixels": [], "score": [], "tags": []}
    for shard in shards:
        for column in columns.values():
            column.append([])
        rows = samples.index(shard)
        for width, height in zip(rows["width"].tolist(), rows["height"].tolist(), strict=True):
            if width and height:
                columns["aspect"][-1].append(log(width / height))
                columns["pixels"][-1].append(log(width * height))
        first = int(samples.table.ends[shard] - lengths[shard])
        for row in np.unique(np.linspace(0, len(rows) - 1, min(RECORDS_OF_A_SHARD, len(rows))).astype(int)).tolist():
            record = samples[first + row].record
            if isinstance(record.get("score"), int | float):
                columns["score"][-1].append(float(record["score"]))
            if "tags" in record:
                columns["tags"][-1].append(float(len(record["tags"])))
    found = {name: intraclass([np.array(one) for one in groups if one]) for name, groups in columns.items()}
    return ShardMixing({name: rho for name, rho in found.items() if rho is not None}, len(lengths))


def intraclass(groups: list[NDArray[np.float64]]) -> float | None:
    """The share of variance that lies between `groups`, by analysis of variance; None where nothing varies."""
    count = sum(map(len, groups))
    if len(groups) < 2 or count <= len(groups):
        return None
    whole = np.concatenate(groups).mean()
    between = sum(len(one) * (one.mean() - whole) ** 2 for one in groups) / (len(groups) - 1)
    inside = sum(((one - one.mean()) ** 2).sum() for one in groups) / (count - len(groups))
    if between + inside == 0:
        return None
    size = (count - sum(len(one) ** 2 for one in groups) / count) / (len(groups) - 1)
    return float(max(0.0, (between - inside) / (between + (size - 1) * inside)))
