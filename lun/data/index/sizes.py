"""Width and height of pictures, read from their headers once and kept with the index."""

from __future__ import annotations

import logging
import os
from array import array
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ldm.errors import Fault
from lun.data.images.decode import header_size
from lun.data.index.columns_file import read_columns
from lun.data.index.dir_handle import HeldFolder
from lun.data.index.looked_once import one_look
from lun.data.index.one_reader import one_reader
from lun.data.index.store import Stamps, index_path, save_columns

log = logging.getLogger(__name__)

_Stored = tuple[Stamps, NDArray[np.int32]]

_THREADS = 8
_FEW = 256
_WORTH_SAYING = 5000


def file_states(root: Path, names: Sequence[str]) -> NDArray[np.int64]:
    """(n, 2): size in bytes and time of the last change in nanoseconds; -1 for a file that cannot be looked at.

    One rank of a machine looks at them for all.
    """
    with one_look(root, "states", lambda: "\0".join(names).encode("utf-8", "surrogatepass")) as look:
        if look.found is not None:
            return look.found
        states = _states(root, names)
        look.seen = lambda: states
    return states


def _states(root: Path, names: Sequence[str]) -> NDArray[np.int64]:
    states = array("q")
    with HeldFolder(root) as folder:
        for name in names:
            states.extend(folder.state(name))
    return np.array(states, np.int64).reshape(-1, 2)


def image_sizes(root: Path, names: Sequence[str], states: NDArray[np.int64]) -> NDArray[np.int32]:
    """(n, 2): width and height after turning upright; 0 for what is no picture.

    Headers that this or another process of the machine read before are not opened.
    """
    stamps = Stamps.of(names, states)
    path = index_path(root, "sizes")
    sizes, new, _ = _known(path, stamps)
    if len(new):
        with one_reader(path):
            sizes, new, stored = _known(path, stamps)
            if len(new) >= _WORTH_SAYING:
                log.info("reading  the sizes of %s images, once", f"{len(new):,}")
            if len(new):
                sizes[new] = _from_headers([os.path.join(root, names[row]) for row in new.tolist()])
                _save(path, stored, Stamps(stamps.keys[new], states[new]), sizes[new])
    return sizes


def _known(path: Path, stamps: Stamps) -> tuple[NDArray[np.int32], NDArray[np.int64], _Stored]:
    """((n, 2) sizes as far as the index has them, which it has not, the index)"""
    stored = _load(path)
    rows = stamps.known_in(stored[0])
    sizes = np.zeros((len(rows), 2), np.int32)
    sizes[rows >= 0] = stored[1][rows[rows >= 0]]
    return sizes, np.flatnonzero(rows < 0), stored


def _from_headers(paths: list[str]) -> NDArray[np.int32]:
    if len(paths) < _FEW:
        sizes = [_size(path) for path in paths]
    else:  # reading waits for the disk, not for Python
        with ThreadPoolExecutor(_THREADS) as threads:
            sizes = list(threads.map(_size, paths, chunksize=64))
    return np.array(sizes, np.int32)


def _size(path: str) -> tuple[int, int]:
    try:
        return header_size(path)
    except Fault:
        return 0, 0


def _load(path: Path) -> _Stored:
    columns = read_columns(path)
    if columns is None:
        return Stamps(np.zeros(0, np.uint64), np.zeros((0, 2), np.int64)), np.zeros((0, 2), np.int32)
    return Stamps(columns["keys"], columns["states"]), columns["sizes"]


def _save(path: Path, old: _Stored, new: Stamps, sizes: NDArray[np.int32]) -> None:
    """The old rows of other pictures stay: validation may share the root with training."""
    still = ~np.isin(old[0].keys, new.keys)
    save_columns(
        path,
        {
            "keys": np.concatenate([old[0].keys[still], new.keys]),
            "states": np.concatenate([old[0].states[still], new.states]),
            "sizes": np.concatenate([old[1][still], sizes]),
        },
    )
