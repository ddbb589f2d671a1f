"""Whether validation looks at pictures that training learns from, and whether sets share pictures."""

import logging
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from lun.data.dataset_protocol import DatasetAccess
from lun.data.index.store import path_keys

log = logging.getLogger(__name__)


def count_overlap(first: Any, second: Any) -> int:
    """How many examples both datasets read; 0 where one of them does not give its paths."""
    if (shared := _shared_shards(first, second)) is not None:
        return shared
    paths = DatasetAccess(first).paths(), DatasetAccess(second).paths()
    if paths[0] is None or paths[1] is None:
        return 0
    return len(np.intersect1d(path_keys(paths[0]), path_keys(paths[1])))


def _shared_shards(first: Any, second: Any) -> int | None:
    """How many examples of `second` lie in shards that `first` has too; None for datasets that lie in none."""
    both = [DatasetAccess(one) for one in (first, second)]
    if not all(one.has("shard_identities", "shard_lengths") for one in both):
        return None
    known = set(both[0].dataset.shard_identities())
    ours = zip(both[1].dataset.shard_identities(), both[1].dataset.shard_lengths(), strict=True)
    return sum(int(length) for identity, length in ours if identity in known)


def warn_of_overlap(train: Any, validation: Any) -> None:
    """Warn where pictures of a validation set (None: there is none) are trained on."""
    shared = 0 if validation is None else count_overlap(train, validation)
    if shared:
        log.warning(
            "warning[DAT10]: %s of the %s images for validation are trained on; its loss says nothing of others\n"
            "  fix:   split: {fraction: 0.02, by: hash} in the params of both, subset: train and subset: validation",
            f"{shared:,}",
            f"{len(validation):,}",
        )


def warn_of_shared_pictures(sets: Mapping[str, Any]) -> None:
    """Warn where two sets of a run read the same picture, which then comes as often as both say."""
    names = {name: DatasetAccess(one).paths() for name, one in sets.items()}
    keys = {name: np.unique(path_keys(paths)) for name, paths in names.items() if paths is not None}
    for first, second in combinations(sets, 2):
        both_known = first in keys and second in keys
        shared = len(np.intersect1d(keys[first], keys[second])) if both_known else 0
        if shared := _shared_shards(sets[first], sets[second]) or shared:
            log.warning(
                "warning[DAT10]: %s images are in both sets %s and %s, and are read as often as both say",
                *(f"{shared:,}", first, second),
            )
