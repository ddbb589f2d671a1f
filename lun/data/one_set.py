"""A training set of one recipe: its buckets, the law of its order, and what a resumed run compares."""

import hashlib
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from ldm.errors import Fault
from lun.data.dataset_protocol import DatasetAccess
from lun.data.order.bucket_table import BucketTable, assign
from lun.data.order.bucketed import BucketOrder
from lun.data.order.buckets import Buckets
from lun.data.order.law import Law, Order, Size
from lun.data.order.law_start import LawStart
from lun.data.order.windows import InShards, Windows

_LONGEST_EPOCH = 1 << 30


class OneSet:
    """`dataset`, in `buckets` where there are some. It answers what `lun.data.sets.mix.Mix` does of several."""

    def __init__(self, dataset: Any, buckets: Buckets | None) -> None:
        self.dataset = dataset
        self.access = DatasetAccess(dataset)
        self.buckets = buckets

    @property
    def n(self) -> int:
        """Examples in one epoch, repeats and resolutions counted."""
        if self.buckets is not None:
            return self.table().n
        repeats = self.access.repeats()
        return len(self.dataset) if repeats is None else int(repeats.sum())

    def table(self) -> BucketTable:
        """Which example goes into which bucket."""
        return self._table

    @cached_property
    def _table(self) -> BucketTable:
        assert self.buckets is not None
        table, lie = assign(self.access.sizes(), self.access.repeats(), self.buckets), self.access.lie()
        return table if lie is None else table.in_shards(lie)

    def law(self, seed: int, global_batch: int, start: LawStart) -> Law:
        """The order of all examples; it has no other start than its own."""
        if self.buckets is not None:
            return BucketOrder(self.table(), seed, global_batch)
        examples, lie = _examples(self.dataset), self.access.lie()
        if lie is None:
            return Order(examples, seed)
        if not isinstance(examples, int):
            lie = InShards.of(examples, lie.lengths, lie.across)
        return Order(examples, seed, shuffles=Windows(lie, seed))

    def fingerprint(self) -> str:
        """What identifies it: the dataset's own, else its class and length; window, and members of buckets."""
        lie, own = self.access.lie(), self.access.fingerprint()
        if lie is not None:
            own = hashlib.sha256(f"{own} window={lie.across}".encode()).hexdigest()
        if self.buckets is not None:
            own = hashlib.sha256((own + self.table().fingerprint()).encode()).hexdigest()
        return own

    def cached(self, make: Callable[[Any, Mapping[Size | None, np.ndarray]], Any]) -> Any:
        """The dataset as `make` gives it from a cache: of a dataset and the examples that are read at each size."""
        if self.buckets is None:
            return make(self.dataset, {None: np.arange(len(self.dataset))})
        return make(self.dataset, {bucket.size: bucket.examples for bucket in self.table().buckets})

    def lines(self) -> list[str]:
        return []


def _examples(dataset: Any) -> int | np.ndarray:
    """How many examples an epoch has, or the index of each where some are repeated."""
    repeats = DatasetAccess(dataset).repeats()
    if repeats is not None and repeats.sum() > _LONGEST_EPOCH:
        raise Fault(
            "CFG08",
            f"an epoch cannot have {repeats.sum():,} examples",
            why=f"its order is kept in memory, and {_LONGEST_EPOCH:,} is the most",
            fix="data.params.train.params.repeats=1, or fewer repeats in names of folders and in descriptions",
        )
    return len(dataset) if repeats is None else np.repeat(np.arange(len(dataset)), repeats)
