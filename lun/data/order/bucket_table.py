"""Which examples lie in which bucket, and what that costs."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from ldm.errors import Fault
from lun.data.order.buckets import WHERE, BucketFit, Buckets, fit_sizes
from lun.data.order.law import Size
from lun.data.order.stream import ALONE, SetPart
from lun.data.order.windows import InShards


@dataclass(frozen=True)
class Bucket:
    """One size, the examples that are read at it (indices, repeated as often as they are), and their mean crop.

    sets  the same examples set by set, where there are several
    """

    size: Size
    examples: np.ndarray
    cropped: float
    sets: tuple[SetPart, ...] = ()

    @property
    def parts(self) -> tuple[SetPart, ...]:
        return self.sets or (SetPart(ALONE, self.examples, Fraction(len(self.examples))),)

    @property
    def rate(self) -> Fraction:
        """How many examples are read an epoch."""
        return sum((part.rate for part in self.parts), Fraction(0))


@dataclass(frozen=True)
class BucketTable:
    """All buckets that hold an example, from narrow to wide within a resolution.

    left_out  indices of examples that lose more than `max_crop` at every resolution
    spared    how often an example was not read at a resolution that it is too small for
    worst     the index of the example that loses most, and the share
    """

    buckets: list[Bucket]
    left_out: list[int] = field(default_factory=list)
    spared: int = 0
    worst: tuple[int, float] = (0, 0.0)

    @cached_property
    def n(self) -> int:
        """Examples of one epoch."""
        return max(1, round(sum(bucket.rate for bucket in self.buckets)))

    @property
    def cropped(self) -> float:
        """The share of all pixels that is cut away."""
        return sum(len(bucket.examples) * bucket.cropped for bucket in self.buckets) / sum(
            len(bucket.examples) for bucket in self.buckets
        )

    def in_shards(self, lie: InShards) -> "BucketTable":
        """The same buckets of examples that lie in shards, those of each bucket in the order of the shards."""
        return replace(self, buckets=[_in_shards(bucket, lie) for bucket in self.buckets])

    def fingerprint(self) -> str:
        """sha256 over sizes and members: what the order of examples depends on."""
        digest = hashlib.sha256()
        for bucket in self.buckets:
            digest.update(f"{bucket.size}".encode() + bucket.examples.astype("<i8").tobytes())
        return digest.hexdigest()

    def lines(self, global_batch: int, path: Callable[[int], object]) -> list[str]:
        """The table as people read it."""
        index, most = self.worst
        yield_of = f"{self.cropped:.1%} of the pixels cropped away, at most {most:.0%} ({path(index)})"
        lines = [f"{len(self.buckets)} buckets, {self.n:,} examples an epoch; {yield_of}"]
        for bucket in self.buckets:
            width, height = bucket.size
            count = len(bucket.examples)
            an_epoch = float(bucket.rate)
            small = (
                f"   one batch of {global_batch} in {global_batch / an_epoch:.1f} epochs"
                if an_epoch < global_batch
                else ""
            )
            lines.append(f"  {width:>5} x {height:<5} {count:>9,} examples {bucket.cropped:>6.1%} cropped{small}")
        if self.spared:
            lines.append(f"  {self.spared:,} times a picture is too small for a resolution and is not enlarged for it")
        if self.left_out:
            few = ", ".join(str(path(index)) for index in self.left_out[:3]) + (", ..." if self.left_out[3:] else "")
            lines.append(f"  {len(self.left_out):,} left out, since they would lose more than {WHERE}.max_crop: {few}")
        return lines


def _in_shards(bucket: Bucket, lie: InShards) -> Bucket:
    members = np.sort(bucket.examples)
    own = InShards.of(members, lie.lengths, lie.across)
    return replace(bucket, examples=members, sets=(SetPart(ALONE, members, Fraction(len(members)), own),))


def assign(pictures: np.ndarray, repeats: np.ndarray | None, buckets: Buckets) -> BucketTable:
    """Put each of `pictures` (n, 2: width, height) into the buckets that cut away least of it.

    Raises `Fault` DAT02 if `max_crop` leaves nothing.
    """
    members_by_size: dict[Size, list[tuple[np.ndarray, np.ndarray]]] = {}
    read = np.zeros(len(pictures), dtype=bool)
    spared, worst = 0, (0, 0.0)
    for resolution in buckets.resolutions:
        fit = fit_sizes(pictures, buckets.sizes(resolution))
        small = fit.larger & (not buckets.upscale and resolution != buckets.resolutions[0])
        taken = ~small if buckets.max_crop is None else ~small & (fit.cropped <= buckets.max_crop)
        spared += int(small.sum())
        read |= taken
        worst = max(worst, _worst(fit, taken), key=lambda members_by_size: members_by_size[1])
        for which, size in enumerate(fit.sizes):
            members = np.flatnonzero(taken & (fit.chosen == which))
            if len(members):
                members_by_size.setdefault(size, []).append((members, fit.cropped[members]))
    if not members_by_size:
        raise Fault(
            "DAT02",
            f"0 of {len(pictures)} images are usable, so there is nothing to train on",
            where=f"{WHERE}.max_crop",
            why=f"all of them would lose more than {buckets.max_crop:.0%} of their pixels",
            fix=f"{WHERE}.max_crop=null",
        )
    made = [_bucket(size, parts, repeats) for size, parts in members_by_size.items()]
    return BucketTable(made, np.flatnonzero(~read).tolist(), spared, worst)


def _bucket(size: Size, parts: list[tuple[np.ndarray, np.ndarray]], repeats: np.ndarray | None) -> Bucket:
    members, cropped = (np.concatenate(column) for column in zip(*parts, strict=True))
    times = np.ones(len(members), dtype=np.int64) if repeats is None else repeats[members]
    return Bucket(size, np.repeat(members, times), float(np.average(cropped, weights=times)))


def _worst(fit: BucketFit, taken: np.ndarray) -> tuple[int, float]:
    lost = np.where(taken, fit.cropped, 0.0)
    return int(lost.argmax()), float(lost.max())
