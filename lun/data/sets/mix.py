"""How several sets are mixed: their buckets, the law of their order, what a resumed run compares and goes on from."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ldm.errors import Fault
from lun.data.dataset_protocol import DatasetAccess
from lun.data.order.bucket_table import Bucket, BucketTable, assign
from lun.data.order.bucketed import BucketOrder
from lun.data.order.buckets import Buckets
from lun.data.order.law import Size
from lun.data.order.law_start import BEGINNING, LawStart
from lun.data.order.mixed import MixedOrder
from lun.data.order.segments import Continuable, Segments
from lun.data.order.stream import SetPart
from lun.data.order.windows import InShards
from lun.data.sets.joined import JoinedSets
from lun.data.sets.set_settings import MixSettings, SetSettings

OF_KIND = {"class": "regularisation", "prior": "learns what the base predicts, by one more forward pass"}


class Mix:
    """The sets of `joined`, mixed as `settings` say, in `buckets` where there are some.

    Raises `Fault` DAT02 for a set of which nothing is usable.
    """

    def __init__(self, settings: MixSettings, joined: JoinedSets, buckets: Buckets | None) -> None:
        self.settings = settings
        self.joined = joined
        self.buckets = buckets

    @cached_property
    def tables(self) -> dict[str, BucketTable]:
        """Of each set its own examples in buckets; without buckets none."""
        return {one.name: self._table_of(one) for one in self.settings.sets} if self.buckets else {}

    def _table_of(self, one: SetSettings) -> BucketTable:
        assert self.buckets is not None
        buckets = replace(self.buckets, resolutions=one.resolutions) if one.resolutions else self.buckets
        access = DatasetAccess(self.joined.sets[one.name])
        try:
            table, lie = assign(access.sizes(), access.repeats(), buckets), self.lies[one.name]
            return table if lie is None else table.in_shards(lie)
        except Fault as fault:
            fault.where = f"{one.where}, {fault.where}"
            raise

    @cached_property
    def lies(self) -> dict[str, InShards | None]:
        """NAME -> how the examples of the set lie in shards, where few of these are to be read at a time."""
        return {name: DatasetAccess(dataset).lie() for name, dataset in self.joined.sets.items()}

    @cached_property
    def members(self) -> dict[str, dict[Size | None, np.ndarray | range]]:
        """NAME -> size -> the examples of the set that are read at it, as indices of all; None without buckets."""
        found: dict[str, dict[Size | None, np.ndarray | range]] = {}
        for one in self.settings.sets:
            first = self.joined.first_of(one.name)
            if self.buckets:
                found[one.name] = {b.size: b.examples + first for b in self.tables[one.name].buckets}
            else:
                dataset = self.joined.sets[one.name]
                repeats, own = DatasetAccess(dataset).repeats(), range(first, first + len(dataset))
                found[one.name] = {None: own if repeats is None else np.repeat(own, repeats)}
        return found

    @cached_property
    def examples(self) -> dict[str, int]:
        """NAME -> how many examples one lap of the set has: repeats in its files and resolutions counted."""
        return {name: sum(map(len, sizes.values())) for name, sizes in self.members.items()}

    def parts(self, size: Size | None, step: int) -> tuple[SetPart, ...]:
        """What is read at `size` after `step` steps of the run."""
        repeats = self.settings.repeats_at(step, self.examples)
        found = ((name, self.members[name].get(size), times) for name, times in repeats.items())
        return tuple(
            SetPart(name, own, len(own) * times, self._lie(name, size)) for name, own, times in found if own is not None
        )

    def _lie(self, name: str, size: Size | None) -> InShards | None:
        """How those examples of a set lie in shards that are read at `size`."""
        lie = self.lies[name]
        if lie is not None and not self.buckets:
            own = self.members[name][None]
            if isinstance(own, range):  # each example once: how they lie is known
                return lie
            return InShards.of(own - self.joined.first_of(name), lie.lengths, lie.across)
        return lie and next(b.parts[0].lie for b in self.tables[name].buckets if b.size == size)

    def table(self, step: int = 0) -> BucketTable:
        """The buckets of all sets that are read after `step` steps."""
        assert self.buckets is not None
        buckets = []
        for size in self._sizes(self.buckets):
            if parts := self.parts(size, step):
                examples = np.concatenate([part.members for part in parts])
                buckets.append(Bucket(size, examples, self._cropped(size, parts), parts))
        left_out = [self.joined.first_of(name) + i for name, table in self.tables.items() for i in table.left_out]
        worst = max(
            ((self.joined.first_of(name) + table.worst[0], table.worst[1]) for name, table in self.tables.items()),
            key=lambda found: found[1],
        )
        return BucketTable(buckets, left_out, sum(table.spared for table in self.tables.values()), worst)

    def _sizes(self, buckets: Buckets) -> dict[Size, None]:
        """The sizes that hold an example, from narrow to wide within a resolution."""
        held = {size for sizes in self.members.values() for size in sizes}
        return {size: None for side in buckets.resolutions for size in buckets.sizes(side) if size in held}

    def _cropped(self, size: Size, parts: tuple[SetPart, ...]) -> float:
        shares = [next(b.cropped for b in self.tables[part.name].buckets if b.size == size) for part in parts]
        return float(np.average(shares, weights=[len(part.members) for part in parts]))

    @property
    def n(self) -> int:
        """Examples of one epoch, as it is at the first step."""
        times = self.settings.repeats_at(0, self.examples)
        return max(1, round(sum((self.examples[name] * often for name, often in times.items()), Fraction(0))))

    def law(self, seed: int, global_batch: int, start: LawStart = BEGINNING) -> Segments:
        """The order of all examples from `start` on."""

        def begun(step: int, at: LawStart) -> Continuable:
            if self.buckets:
                return BucketOrder(self.table(step), seed, global_batch, at)
            return MixedOrder(self.parts(None, step), seed, at)

        return Segments(begun, start, self.settings.changes, global_batch)

    def cached(self, make: Callable[[Any, Mapping[Size | None, np.ndarray]], Any]) -> JoinedSets:
        """The sets as `make` gives them from a cache: of a dataset and the examples that are read at each size."""
        made = []
        for one in self.settings.sets:
            first = self.joined.first_of(one.name)
            read_at = {size: np.asarray(members) - first for size, members in self.members[one.name].items()}
            try:
                made.append(make(self.joined.sets[one.name], read_at))
            except Fault as fault:
                fault.where = f"{fault.where} ({one.where})"
                raise
        return JoinedSets(self.joined.settings, made)

    # What is stored, compared and gone on from

    @cached_property
    def identities(self) -> dict[str, dict[str, Any]]:
        """NAME -> what a resumed run compares of each set: its examples, how many there are, how often they come."""
        return {
            one.name: {"n": self.examples[one.name], "fingerprint": self._fingerprint(one.name), "law": one.law()}
            for one in self.settings.sets
        }

    def _fingerprint(self, name: str) -> str:
        digest = hashlib.sha256(DatasetAccess(self.joined.sets[name]).fingerprint().encode())
        if (lie := self.lies[name]) is not None:
            digest.update(f"window={lie.across}".encode())
        if self.buckets:
            digest.update(self.tables[name].fingerprint().encode())
        return digest.hexdigest()

    def fingerprint(self) -> str:
        """A hash of all identities."""
        return hashlib.sha256(repr((self.identities, self.settings.epoch)).encode()).hexdigest()

    def state_dict(self, reached: LawStart, start: LawStart) -> dict[str, Any]:
        """Integers and hashes: the sets, where the law at work began, and what of each was read by now."""
        members = {name: {str(s): len(own) for s, own in sizes.items()} for name, sizes in self.members.items()}
        state = {"sets": self.identities, "epoch_of": self.settings.epoch, "members": members}
        return {**state, "start": start.state_dict(), "reached": reached.state_dict()}

    def start_after(self, stored: Mapping[str, Any]) -> LawStart:
        """Where a law of today's sets begins for a run that was saved with others: what is as it was goes on.

        A set whose examples changed begins its next lap.
        """
        reached = LawStart.of(stored["reached"])
        read: dict[Size | None, dict[str, int]] = {}
        for size, counts in reached.read.items():
            read[size] = {}
            for name, count in counts.items():
                now = len(self.members.get(name, {}).get(size, ()))
                before = stored["members"].get(name, {}).get(str(size), 0)
                same = name in self.identities and _same_examples(stored["sets"].get(name), self.identities[name])
                if now:
                    read[size][name] = count if same or not before else -(-count // before) * now
        return replace(reached, epoch=reached.epoch + 1, read=read)

    def laps(self, reached: LawStart) -> dict[str, float]:
        """NAME -> how often the examples of each set were read, as a real number."""
        return {
            name: sum(counts.get(name, 0) for counts in reached.read.values()) / self.examples[name]
            for name in self.joined.sets
        }

    def lines(self) -> list[str]:
        """The sets as people read them."""
        repeats = self.settings.repeats_at(0, self.examples)
        whole = sum((self.examples[name] * times for name, times in repeats.items()), Fraction(0))
        return [self._line(one, repeats.get(one.name, Fraction(0)), whole) for one in self.settings.sets]

    def _line(self, one: SetSettings, times: Fraction, whole: Fraction) -> str:
        pictures, examples = len(self.joined.sets[one.name]), self.examples[one.name]
        facts = [f"{pictures:,} images"] + ([f"{examples:,} examples a lap"] if examples != pictures else [])
        facts.append(f"{float(times):.4g} laps an epoch, {float(examples * times / whole):.1%} of what is read")
        facts += [OF_KIND[one.kind]] if one.kind in OF_KIND else []
        facts += [f"loss x {one.loss_weight:g}"] if one.loss_weight != 1 else []
        facts += ["timesteps {} to {}".format(*one.timesteps)] if one.timesteps else []
        facts += [f"from step {one.from_step:,}"] if one.from_step else []
        facts += [f"until step {one.until_step:,}"] if one.until_step is not None else []
        return f"{one.name}: {', '.join(facts)}"


def _same_examples(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> bool:
    return before is not None and all(before[name] == now[name] for name in ("n", "fingerprint"))
