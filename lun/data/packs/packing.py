"""A folder's pictures as shards: equal input gives equal bytes, and a killed pack goes on at the next shard."""

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ldm.errors import Fault
from ldm.plain import parse_json
from lun.data.dataset_protocol import PACKABLE, DatasetAccess, PackableDataset
from lun.data.images.decode import header_size
from lun.data.index.dir_handle import FileInMemory, open_file
from lun.data.packs.destination import Destination
from lun.data.packs.set_file import ROW, SET_FILE, SetFacts, index_of, shard_name
from lun.data.packs.set_writing import drop_tables_but, write_set
from lun.data.packs.shard_samples import MASK, PICTURES, RECORD, Samples
from lun.data.packs.shard_writer import PackedSample, ShardWriter, shard_entry
from lun.data.packs.smaller import made_smaller

log = logging.getLogger(__name__)

PLAN = ".packing.json"
"""What a pack is made of, while it is under way."""

BESIDE = "beside"
"""What of `SetFacts.made_of` is the hash of captions, weights and masks; sets that were packed without have none."""

ShardOrder = Literal["hash", "given"]


@dataclass(frozen=True)
class PackSettings:
    """How a folder is packed.

    shard_bytes  a shard ends with the sample that makes it as long
    order        `hash` mixes the pictures by their names, so that every shard is a fair sample; `given` keeps theirs
    max_side     pictures with a longer side are made smaller; None leaves all bytes alone
    """

    shard_bytes: int = 256 << 20
    order: ShardOrder = "hash"
    max_side: int | None = None

    def __post_init__(self) -> None:
        for holds, name, value in (
            (self.shard_bytes > 0, "--shard-mb", self.shard_bytes / (1 << 20)),
            (self.max_side is None or self.max_side > 0, "--max-side", self.max_side),
        ):
            if not holds:
                raise Fault("CLI03", f"{name} cannot be {value:g}", why="it takes a number above 0")


class Packing:
    """`dataset` on its way to `destination`; with `append`, what the set there has not got goes into further shards."""

    def __init__(
        self, dataset: PackableDataset, destination: Destination, settings: PackSettings, append: bool = False
    ) -> None:
        self.dataset = dataset
        self.destination = destination
        self.where = destination.where
        self.settings = settings
        self.append = append
        access = DatasetAccess(dataset)
        if missing := [name for name in PACKABLE if not access.has(name)]:
            raise Fault("CFG08", f"{access.name} cannot be packed", why=f"it has no {', no '.join(missing)}")
        self.times, self.weights = access.repeats(), access.weights()
        readable = np.flatnonzero(dataset.sizes().min(axis=1) > 0)
        self.made_of = {"input": dataset.fingerprint(), BESIDE: self._beside(readable), **asdict(settings)}

    def _beside(self, indices: np.ndarray[Any, Any]) -> str:
        """sha256 of all that is packed beside the pictures: records, weights and the lengths of masks."""
        digest = hashlib.sha256()
        for index in indices.tolist():
            masks = [mask.stat().st_size for mask in list(self.dataset.files(index))[1:]]
            digest.update(_as_json([self.dataset.record(index), self._weight(index), masks]) + b"\n")
        return digest.hexdigest()

    def run(self) -> SetFacts:
        """Pack, or go on with it. Raises `Fault` CLI04 for a folder with something else, DAT06, OSError."""
        self._there = self.destination.names()
        before = self._before()
        if before is not None:
            self._end_what_is_finished(before)
        if before is not None and not self.append:
            log.info("packed   %s is packed already: %s samples", self.where, f"{before.table.facts.samples:,}")
            return before.table.facts
        indices = self._order() if before is None else self._new_to(before)
        if before is not None and not indices:
            log.info("packed   %s has all of these pictures already", self.where)
            return before.table.facts
        was_weighted = before is not None and before.table.facts.weighted
        self._weighted = self.weights is not None or was_weighted
        if before is not None and self._weighted and not was_weighted:
            raise Fault("CLI04", f"{self.where} has no weights, and the new pictures have some", where="--append")
        self._claim(before)
        shards = [] if before is None else [before.table.shards]
        written = 0 if before is None else self._samples_in(before)
        first = len(before.table.shards) if before is not None else 0
        shards += self._shards(indices, first, written)
        return self._finish(shards, before)

    def _before(self) -> Samples | None:
        """The set that is there. Raises `Fault` CLI04 for one that was made of other pictures, or in another way."""
        if SET_FILE not in self._there:
            if self.append:
                fix = "without --append, or -o the folder of the set"
                raise Fault("CLI04", f"{self.where} holds no packed set to append to", where="-o", fix=fix)
            return None
        found = Samples(self.destination.storage)
        made_of = dict(found.table.facts.made_of or {})
        if self.append and not made_of:
            why = "somebody else made its shards"
            raise Fault("CLI04", f"nothing can be appended to {self.where}", where="-o", why=why)
        other = {name for name, value in made_of.items() if value != self.made_of.get(name)}
        if not self.append and (other or not made_of):
            fix = "--append, which adds the pictures that it has not got, or -o ANOTHER_DIR"
            what = f"{self.where} holds a set of other pictures or settings"
            if other == {BESIDE}:
                what, fix = f"{self.where} holds these pictures with other captions, weights or masks", "-o ANOTHER_DIR"
            raise Fault("CLI04", what, where="-o", fix=fix)
        return found

    def _end_what_is_finished(self, before: Samples) -> None:
        """Clear up after a pack that was killed when its set was written, and whose plan is still there."""
        if PLAN not in self._there:
            return
        try:
            plan = parse_json(self.destination.storage.whole([PLAN])[0])
        except ValueError:
            return
        if isinstance(plan, dict) and plan.get("after", "") != before.table.fingerprint:
            drop_tables_but(before.table.facts.table, self.destination)
            self.destination.delete(PLAN)
            self._there.discard(PLAN)

    def _order(self) -> list[int]:
        """Indices of the pictures, in the order in which they are written."""
        sizes = self.dataset.sizes()
        bad = np.flatnonzero(sizes.min(axis=1) <= 0)
        if len(bad):
            log.warning("warning[DAT06]: left out, since they cannot be read: %s images", f"{len(bad):,}")
            log.warning("  where: %s", ", ".join(self.dataset.name(int(i)) for i in bad[:4]))
        indices = np.flatnonzero(sizes.min(axis=1) > 0).tolist()
        if not indices:
            raise Fault("DAT02", "0 images can be read, so there is nothing to pack", where=str(self.where))
        if self.settings.order == "hash":
            indices.sort(key=lambda index: (_lot(self.dataset.name(index)), index))
        return indices

    def _new_to(self, before: Samples) -> list[int]:
        known = {record.get("path"): record for record in (before[index].record for index in range(len(before)))}
        new, changed = [], 0
        for index in self._order():
            name = self.dataset.name(index)
            if name not in known:
                new.append(index)
            elif _as_json(known[name]) != _as_json(self.dataset.record(index)):
                changed += 1
        if changed:
            log.warning("%s pictures stay with the captions that they were packed with", f"{changed:,}")
        return new

    @staticmethod
    def _samples_in(before: Samples) -> int:
        """How many different ones: each has its number in its name."""
        return sum(len(np.unique(before.index(shard)["block"])) for shard in range(len(before.table.shards)))

    def _claim(self, before: Samples | None) -> None:
        """Write down what is packed here. Raises `Fault` CLI04 where something else is."""
        plan = {**self.made_of, "after": None if before is None else before.table.fingerprint}
        text = json.dumps(plan, sort_keys=True)
        if PLAN in self._there:
            if self.destination.storage.whole([PLAN])[0] != text.encode():
                why = "its pictures or settings are not those of now"
                fix = f"{self.destination.emptied}, or -o ANOTHER_DIR"
                raise Fault("CLI04", f"another pack is under way in {self.where}", where="-o", why=why, fix=fix)
            return
        if before is None and any(name.endswith(".tar") for name in self._there):
            fix = "-o ANOTHER_DIR; an index for tar files that are there: --index-only"
            raise Fault("CLI04", f"{self.where} holds tar files of somebody else", where="-o", fix=fix)
        with self.destination.new(PLAN) as file:
            file.write(text.encode())

    def _shards(self, indices: Sequence[int], number: int, written: int) -> Iterator[np.ndarray[Any, Any]]:
        """A `SHARD` for each, those of an earlier attempt first."""
        at = 0
        while at < len(indices):
            made = self._made_before(number)
            if made is not None:
                count, entry = made
                log.info("shard    %s is there: %s samples", shard_name(number), f"{count:,}")
            else:
                count, entry = self._write(indices[at:], number, written + at)
                log.info("shard    %s: %s samples", shard_name(number), f"{count:,}")
            yield entry
            at, number = at + count, number + 1

    def _made_before(self, number: int) -> tuple[int, np.ndarray[Any, Any]] | None:
        """(different samples, entry) of a shard that an earlier attempt finished: its index is written last."""
        shard = shard_name(number)
        if not {shard, index_of(shard)} <= self._there:
            return None
        data = self.destination.storage.whole([index_of(shard)])[0]
        rows = np.frombuffer(data, ROW, len(data) // (ROW.itemsize + 4 * self._weighted))
        held = self.destination.hashed(shard)
        return len(np.unique(rows["block"])), shard_entry(len(rows), held.length, held.sha256, data)

    def _write(self, indices: Sequence[int], number: int, written: int) -> tuple[int, np.ndarray[Any, Any]]:
        count, name = 0, shard_name(number)
        with self.destination.new(name) as file:
            shard = ShardWriter(file, self._weighted)
            while count < len(indices) and shard.bytes < self.settings.shard_bytes:
                shard.add(self._sample(indices[count], written + count))
                count += 1
            shard.end()
        with self.destination.new(index_of(name)) as file:
            file.write(shard.index())
        return count, shard.entry()

    def _sample(self, index: int, number: int) -> PackedSample:
        """Example `index` as it is written. Raises `Fault` DAT06 for a picture that is gone."""
        files = [_content(file) for file in self.dataset.files(index)]
        picture, suffix = files[0].data, _suffix(files[0].name)
        size = tuple(self.dataset.sizes()[index].tolist())
        if self.settings.max_side is not None and max(size) > self.settings.max_side:
            picture, suffix = made_smaller(files[0], suffix, self.settings.max_side)
            size = header_size(FileInMemory(files[0].name, picture))
        named = [(RECORD, _as_json(self.dataset.record(index))), (suffix, picture)]
        named += [(MASK + _suffix(mask.name), mask.data) for mask in files[1:]]
        return PackedSample(
            [(f"{number:09}.{extension}", data) for extension, data in named],
            (size[0], size[1]),
            1 if self.times is None else int(self.times[index]),
            self._weight(index),
        )

    def _weight(self, index: int) -> float:
        return 1.0 if self.weights is None else float(self.weights[index])

    def _finish(self, shards: Sequence[np.ndarray[Any, Any]], before: Samples | None) -> SetFacts:
        """The table, then `set.json`, which makes it a set."""
        was, recorded = before.table.facts if before is not None else None, self.dataset.recorded()
        facts = write_set(
            self.destination,
            shards,
            lines=recorded["lines"],
            tags=recorded["tags"] or (was is not None and was.tags),
            masks=recorded["masks"] or (was is not None and was.masks),
            weighted=self._weighted,
            further=_either(recorded.get("further"), was.further if was is not None else False),
            made_of=self.made_of,
        )
        self.destination.delete(PLAN)
        return facts


def _either(one: bool | None, other: bool | None) -> bool | None:
    """Whether one of two holds, None where that is not known."""
    return True if one or other else None if one is None or other is None else False


def _as_json(facts: Any) -> bytes:
    return json.dumps(facts, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")


def _lot(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _content(file: Path) -> FileInMemory:
    try:
        with open_file(file) as opened:
            return FileInMemory(str(file), opened.read())
    except OSError as error:
        raise Fault("DAT06", f"cannot read image {file}", why=error.strerror or str(error)) from error


def _suffix(name: str) -> str:
    suffix = name.rpartition(".")[2].lower()
    return suffix if suffix in PICTURES else "png"
