"""What a packed set says of itself: `set.json`, the table of its shards, and an index of 16 bytes a sample."""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldm.errors import Fault
from ldm.plain import parse_json, record_of
from lun.data.packs.tar_members import BLOCK

SET_FILE = "set.json"
FORMAT = 1

ROW = np.dtype([("block", "<u4"), ("length", "<u4"), ("crc32", "<u4"), ("width", "<u2"), ("height", "<u2")])
"""One sample: where its first header lies in blocks of 512 bytes, its bytes from there on and their checksum, and the
picture's pixels, upright; a sample that is read three times a lap stands there three times."""

SHARD = np.dtype([("samples", "<u4"), ("bytes", "<u8"), ("sha256", "V32"), ("index_sha256", "V32")])
"""One shard: rows of its index, and what its two files hold."""


class ShardRow(NamedTuple):
    """Where a sample lies: the number of its shard, and the row of that shard's index."""

    shard: int
    row: int


class TarShard(NamedTuple):
    """The tar file of a shard: its name, how many bytes it has, and the hash of them in hexadecimal."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class SetFacts:
    """What `set.json` holds.

    table    the name of the file with a `SHARD` for each shard
    sha256   of that file
    names    of the shards, for those that somebody else made; else they are numbered
    lines    whether texts are one caption, however many lines a file has, unless `several_captions` is said
    tags     whether any sample has tags apart from its text
    masks    whether any sample has a mask
    weighted whether a float32 for each row follows its index: how much it counts in the loss
    further  whether any sample has captions for further text encoders; None: it was packed without looking
    made_of  what it was made of and how, compared when it is gone on with
    """

    samples: int
    shards: int
    table: str
    sha256: str
    names: list[str] | None = None
    lines: bool = True
    tags: bool = False
    masks: bool = False
    weighted: bool = False
    further: bool | None = None
    made_of: Mapping[str, Any] | None = None
    format: int = FORMAT

    def to_json(self) -> bytes:
        return (json.dumps(asdict(self), sort_keys=True, indent=1) + "\n").encode()

    @classmethod
    def of_json(cls, data: bytes, where: str) -> "SetFacts":
        """Raises `Fault` DAT13 for what is no such file, or of a later kind."""
        try:
            found = parse_json(data)
            kind = found.get("format") if isinstance(found, Mapping) else FORMAT
            if isinstance(kind, int) and kind != FORMAT:
                what = f"{where} was packed by another version (format {kind}, not {FORMAT})"
                raise Fault("DAT13", what, where=where, fix="pack it again, or use the version that packed it")
            made = record_of(cls, found)
            made.require_files_of_the_set()
            return made
        except ValueError as error:
            raise Fault("DAT13", f"{where} does not describe a packed set", where=where, why=str(error)) from error

    def require_files_of_the_set(self) -> None:
        """Raise ValueError for names that are none of files beside `set.json`, one for each shard."""
        if self.names is not None and len(self.names) != self.shards:
            raise ValueError(f"names of {len(self.names):,} shards, of {self.shards:,}")
        for name in (self.table, *(self.names or ())):
            if not name or "/" in name or "\0" in name:
                raise ValueError(f"{name!r} is no file of it")


class ShardTable:
    """A packed set before any of its shards is opened: O(shards) of memory, nothing a sample."""

    def __init__(self, facts: SetFacts, shards: NDArray[Any], fingerprint: str) -> None:
        self.facts = facts
        self.shards = shards
        self.fingerprint = fingerprint

    @classmethod
    def read(cls, set_file: bytes, table: bytes, where: str) -> "ShardTable":
        """Of the contents of both files. Raises `Fault` DAT13 where they do not belong together."""
        facts = SetFacts.of_json(set_file, where)
        same = hashlib.sha256(table).hexdigest() == facts.sha256 and len(table) == facts.shards * SHARD.itemsize
        shards = np.frombuffer(table, SHARD) if same else np.zeros(0, SHARD)
        if not same or shards["samples"].sum(dtype=np.int64) != facts.samples:
            why = f"{facts.table} is not what {SET_FILE} says of it"
            raise Fault("DAT13", f"the table of shards of {where} is another one", where=where, why=why, fix=COPY)
        return cls(facts, shards, hashlib.sha256(set_file).hexdigest())

    def __len__(self) -> int:
        return self.facts.samples

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(shards,) samples of each"""
        return np.asarray(self.shards["samples"], np.int64)

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        """(shards,) how many samples lie before the end of each"""
        return np.cumsum(self.lengths)

    @cached_property
    def _ends(self) -> list[int]:
        """The same as Python's numbers, which are looked up four times as fast one by one."""
        return self.ends.tolist()

    def place(self, index: int) -> ShardRow:
        shard = bisect_right(self._ends, index)
        return ShardRow(shard, index - (self._ends[shard - 1] if shard else 0))

    def file(self, shard: int) -> TarShard:
        row = self.shards[shard]
        return TarShard(self.name(shard), int(row["bytes"]), row["sha256"].tobytes().hex())

    def name(self, shard: int) -> str:
        """The file of a shard."""
        return self.facts.names[shard] if self.facts.names is not None else shard_name(shard)

    def index_name(self, shard: int) -> str:
        """The file of its index."""
        return index_of(self.name(shard))


COPY = "copy the whole set again, or pack it again"


def shard_name(number: int) -> str:
    return f"{number:06}.tar"


def index_of(shard: str) -> str:
    """`000003.idx` of `000003.tar`."""
    return shard.removesuffix(".tar") + ".idx"


def row_of(at: int, length: int, crc: int, size: tuple[int, int]) -> tuple[int, int, int, int, int]:
    """A `ROW` of the sample at byte `at`; sides that no picture has are 0, as those that cannot be read."""
    width, height = size if max(size) < 1 << 16 else (0, 0)
    return at // BLOCK, length, crc, width, height
