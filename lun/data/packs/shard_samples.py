"""Samples of a packed set by their index: bytes, checked, distinguished by their extensions."""

import hashlib
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldm.errors import Fault
from ldm.plain import parse_json
from lun.data.index.dir_handle import FileInMemory
from lun.data.packs.set_file import COPY, ROW, SET_FILE, SetFacts, ShardTable, TarShard
from lun.data.packs.storage import Piece, Storage
from lun.data.packs.tar_members import BLOCK, members

PICTURES = ("png", "jpg", "jpeg", "webp", "bmp", "avif", "tiff", "tif", "gif")
MASK = "mask."
"""What the extension of a mask begins with."""
RECORD = "json"
TEXT = "txt"

MOST_INDEXES = 256
"""Indexes of shards that are held, about 40 KB each."""


@dataclass(frozen=True)
class StoredSample:
    """One example as it was packed.

    record  what is known of it: caption, tags, score, ...; nothing, where there is no JSON
    """

    picture: FileInMemory
    mask: FileInMemory | None
    record: Mapping[str, Any]


class _Located(NamedTuple):
    """Where a sample lies, what its bytes sum up to, and what a person calls it."""

    file: TarShard
    piece: Piece
    crc: int
    where: str


class _Index(NamedTuple):
    """The index of a shard: (samples,) of `ROW`, and (samples,) weights, or none."""

    rows: NDArray[Any]
    weights: NDArray[np.float32]


class Samples:
    """The samples of a set. Raises `Fault` DAT13 where the set cannot be read, DAT14 where it was changed."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        set_file = storage.whole([SET_FILE])[0]
        name = SetFacts.of_json(set_file, storage.path(SET_FILE)).table
        self.table = ShardTable.read(set_file, storage.whole([name])[0], storage.path(SET_FILE))
        self._indexes: OrderedDict[int, _Index] = OrderedDict()
        self._fetched: dict[int, bytes] = {}
        self._files: dict[int, TarShard] = {}

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int) -> StoredSample:
        found = self._located(index)
        return sample_of(self._checked(index, found), found.where)

    def fetch(self, indices: Sequence[int]) -> None:
        """Read several samples at once; each is given out by the next access to it."""
        by_shard: dict[TarShard, dict[int, Piece]] = {}
        for index in indices:
            found = self._located(index)
            by_shard.setdefault(found.file, {})[index] = found.piece
        wanted = [(file, list(own.values())) for file, own in by_shard.items()]
        self._fetched = {}
        for own, pieces in zip(by_shard.values(), self.storage.several(wanted), strict=True):
            self._fetched |= zip(own, pieces, strict=True)

    def _located(self, index: int) -> _Located:
        shard, row = self.table.place(index)
        block, length, crc, _, _ = self.index(shard)[row].item()
        file = self._files.get(shard)
        if file is None:
            file = self._files[shard] = self.table.file(shard)
        return _Located(file, (block * BLOCK, length), crc, f"{self.storage.path(file.name)}#{row}")

    def _checked(self, index: int, at: _Located) -> bytes:
        """The bytes of a sample; what does not fit its checksum is read once more, past whatever keeps copies."""
        found = self._fetched.pop(index, None)
        if found is None:
            found = self.storage.pieces(at.file, [at.piece])[0]
        if zlib.crc32(found) != at.crc:
            self.storage.forget(at.file)
            found = self.storage.pieces(at.file, [at.piece])[0]
        if zlib.crc32(found) != at.crc:
            why = "its checksum is not the one of when it was packed: a broken disk or copy, or somebody wrote to it"
            raise Fault("DAT14", f"{at.where} is damaged", where=at.where, why=why, fix=COPY)
        return found

    def size(self, index: int) -> tuple[int, int]:
        """(width, height) of a picture, upright; 0 where it could not be read when it was packed."""
        shard, row = self.table.place(index)
        found = self.index(shard)[row]
        return int(found["width"]), int(found["height"])

    def weight(self, index: int) -> float:
        """How much a picture counts in the loss."""
        if not self.table.facts.weighted:
            return 1.0
        shard, row = self.table.place(index)
        return float(self._index(shard).weights[row])

    def index(self, shard: int) -> NDArray[Any]:
        """(samples,) of `ROW`."""
        return self._index(shard).rows

    def _index(self, shard: int) -> _Index:
        if shard in self._indexes:
            self._indexes.move_to_end(shard)
            return self._indexes[shard]
        while len(self._indexes) >= MOST_INDEXES:
            self._indexes.popitem(last=False)
        found = self._parsed(shard, self.storage.whole([self.table.index_name(shard)])[0])
        self._indexes[shard] = found
        return found

    def _parsed(self, shard: int, data: bytes) -> _Index:
        row = self.table.shards[shard]
        of_one = ROW.itemsize + 4 * self.table.facts.weighted
        if hashlib.sha256(data).digest() != row["index_sha256"].tobytes() or len(data) != row["samples"] * of_one:
            where = self.storage.path(self.table.index_name(shard))
            why = f"it is not what {SET_FILE} and the table of shards say of it"
            raise Fault("DAT14", f"{where} is not the index that was packed", where=where, why=why, fix=COPY)
        count = int(row["samples"])
        return _Index(np.frombuffer(data, ROW, count), np.frombuffer(data, "<f4", offset=count * ROW.itemsize))

    @cached_property
    def sizes(self) -> NDArray[np.int32]:
        """(n, 2) width and height of all; reads every index once."""
        found = [np.stack([rows["width"], rows["height"]], axis=1) for rows in self._all_rows()]
        return np.concatenate(found).astype(np.int32)

    def _all_rows(self) -> list[NDArray[Any]]:
        shards = range(len(self.table.shards))
        found = self.storage.whole([self.table.index_name(shard) for shard in shards])
        return [self._parsed(shard, data).rows for shard, data in zip(shards, found, strict=True)]


def sample_of(piece: bytes, where: str) -> StoredSample:
    """Raises `Fault` DAT06 for a sample without a picture, DAT04 for a record that is none."""
    files = members(piece, where)
    picture = next((name for name in files if name in PICTURES), None)
    if picture is None:
        why = f"it has {', '.join(files) or 'nothing'}"
        raise Fault("DAT06", f"cannot read image {where}", why=f"there is no picture: {why}")
    mask = next((name for name in files if name.startswith(MASK)), None)
    try:
        record = parse_json(files.get(RECORD, b"{}"))
    except ValueError as error:
        raise Fault("DAT04", f"cannot read caption {where}", why=f"broken JSON: {error}") from error
    record = record if isinstance(record, dict) else {}
    if "caption" not in record and TEXT in files:
        record["caption"] = files[TEXT].decode("utf-8-sig", "replace")
    name = f"{where} ({record['path']})" if "path" in record else where
    beside = None if mask is None else FileInMemory(f"mask of {name}", files[mask])
    return StoredSample(FileInMemory(name, files[picture]), beside, record)
