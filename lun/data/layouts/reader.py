"""Reads descriptions, one small JSON file each, here or in a process of its own; loads neither torch nor numpy."""

from __future__ import annotations

import gc
import os
import pickle
import sys
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lun.data.index.dir_handle import HeldFolder, State
from lun.data.metadata.description import add_record, json_reader
from lun.data.metadata.table_builder import Packed, Rows


class Read(NamedTuple):
    """What some files say, a row for each."""

    rows: Packed
    states: array[int]
    """size and time of the last change of each file, one behind the other"""


def read_files(root: str, files: Sequence[str]) -> Read:
    """One row per file, in their order, broken ones included."""
    rows, states, reader = Rows(), array("q"), json_reader()
    with HeldFolder(root) as folder:
        for file in files:
            record, state = _record(folder, file, reader)
            add_record(rows, record, file)
            states.extend(state)
    return Read(rows.packed(), states)


def _record(folder: HeldFolder, file: str, reader: Callable[[bytes], Any]) -> tuple[Any, State]:
    """What a file says, None where it cannot be read, and the state in which it was opened."""
    try:
        opened, state = folder.open(file)
    except OSError:
        return None, folder.state(file)
    try:
        return reader(_content(opened, state[0])), state
    except (OSError, ValueError, RecursionError):
        return None, state
    finally:
        os.close(opened)


def _content(file: int, size: int) -> bytes:
    """All bytes of a file, which one call gives unless the file is huge or changes meanwhile."""
    parts = [os.read(file, size)]
    while parts[-1] and sum(map(len, parts)) < size:
        parts.append(os.read(file, size))
    return parts[0] if len(parts) == 1 else b"".join(parts)


def serve() -> None:
    """Answer each (root, files) that comes in with what they say, until the process that asks is done or gone."""
    gc.disable()  # all that lives long is flat
    try:
        while True:
            root, files = pickle.load(sys.stdin.buffer)
            pickle.dump(read_files(root, files), sys.stdout.buffer, pickle.HIGHEST_PROTOCOL)
            sys.stdout.buffer.flush()
    except (EOFError, BrokenPipeError):
        os._exit(0)  # without another try to write
