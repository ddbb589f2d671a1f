"""The table of a set's shards and `set.json`, which make shards a set: written last, whole or not at all."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lun.data.packs.destination import Destination
from lun.data.packs.set_file import SET_FILE, SHARD, SetFacts


def write_set(destination: Destination, entries: Sequence[NDArray[Any]], **facts: Any) -> SetFacts:
    """The set of shards with these `SHARD` entries, in place of an earlier one; `facts` are those of `SetFacts`."""
    table = np.concatenate(entries)
    data = table.astype(SHARD).tobytes()
    sha256 = hashlib.sha256(data).hexdigest()
    made = SetFacts(
        samples=int(table["samples"].sum(dtype=np.int64)),
        shards=len(table),
        table=f"shards-{sha256[:12]}.table",
        sha256=sha256,
        **facts,
    )
    with destination.new(made.table) as file:
        file.write(data)
    with destination.new(SET_FILE) as file:
        file.write(made.to_json())
    drop_tables_but(made.table, destination)
    return made


def drop_tables_but(table: str, destination: Destination) -> None:
    """Take away the tables of earlier states of the set."""
    for name in destination.names():
        if name != table and name.startswith("shards-") and name.endswith(".table"):
            destination.delete(name)
