"""An index for tar files that somebody else made, such as img2dataset: they stay where and as they are."""

import hashlib
import logging
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.errors import Fault
from ldm.files.replacing import replacing
from lun.data.images.decode import header_size
from lun.data.index.dir_handle import open_file
from lun.data.metadata.description import FURTHER_KEYS
from lun.data.packs.destination import FolderDestination
from lun.data.packs.set_file import ROW, SET_FILE, SetFacts, index_of, row_of
from lun.data.packs.set_writing import write_set
from lun.data.packs.shard_samples import sample_of
from lun.data.packs.shard_writer import Row, shard_entry
from lun.data.packs.tar_members import sample_key

log = logging.getLogger(__name__)

OF_THE_SAMPLE = ("DAT04", "DAT06")


def index_shards(folder: Path) -> SetFacts:
    """Write an index beside each tar file of `folder`, and the set of all of them.

    Raises `Fault` CLI04 for what is a set already, DAT02 for a folder without pictures, DAT14 for a broken tar file.
    """
    shards = sorted(folder.glob("*.tar"))
    if (folder / SET_FILE).exists():
        fix = f"delete {SET_FILE} there, to index the tar files anew"
        raise Fault("CLI04", f"{folder} is a packed set already", where="--index-only", fix=fix)
    if not shards:
        raise Fault("DAT02", f"{folder} holds no tar files", where="--index-only", fix="a folder with NAME.tar files")
    entries, skipped, tags, masks, further = [], 0, False, False, False
    for shard in shards:
        found = _Scan(shard)
        entries.append(found.write())
        skipped, tags, masks = skipped + found.skipped, tags or found.tags, masks or found.masks
        further = further or found.further
        log.info("index    %s: %s samples", shard.name, f"{len(found.rows):,}")
    if skipped:
        log.warning("warning[DAT06]: left out, since they have no picture that can be read: %s samples", f"{skipped:,}")
    if not sum(int(entry["samples"][0]) for entry in entries):
        raise Fault("DAT02", f"no sample in the tar files of {folder} has a picture", where="--index-only")
    names = [shard.name for shard in shards]
    return write_set(FolderDestination(folder), entries, names=names, tags=tags, masks=masks, further=further)


class _Scan:
    """The samples of one tar file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = []
        self.skipped, self.tags, self.masks, self.further = 0, False, False, False
        try:
            with open_file(path) as file:
                self.sha256 = hashlib.file_digest(file, "sha256").digest()
                for first, length in _samples(path):
                    file.seek(first)
                    self._add(first, file.read(length))
        except (tarfile.TarError, EOFError, OSError) as error:
            why = f"{error}; a compressed one has to be unpacked to .tar first"
            raise Fault("DAT14", f"{path} is no whole tar file", where=str(path), why=why) from error

    def _add(self, first: int, piece: bytes) -> None:
        try:
            sample = sample_of(piece, f"{self.path}@{first}")
            size = header_size(sample.picture)
        except Fault as fault:
            if fault.id not in OF_THE_SAMPLE:
                raise
            self.skipped += 1
            return
        self.tags |= bool(sample.record.get("tags"))
        self.masks |= sample.mask is not None
        self.further |= any(sample.record.get(key) for key in FURTHER_KEYS)
        self.rows.append(row_of(first, len(piece), zlib.crc32(piece), size))

    def write(self) -> NDArray[Any]:
        """The index file; returns the `SHARD`."""
        data = np.array(self.rows, ROW).tobytes()
        with replacing(self.path.with_name(index_of(self.path.name))) as file:
            file.write(data)
        return shard_entry(len(self.rows), self.path.stat().st_size, self.sha256, data)


def _samples(path: Path) -> Iterator[tuple[int, int]]:
    """(first byte, length) of the files of each sample; those that share a key follow one another."""
    with tarfile.open(path, "r:") as archive:
        files = (info for info in archive if info.isfile())
        for _, group in groupby(files, key=lambda info: sample_key(info.name)):
            members: Sequence[tarfile.TarInfo] = list(group)
            yield members[0].offset, members[-1].offset_data + members[-1].size - members[0].offset
