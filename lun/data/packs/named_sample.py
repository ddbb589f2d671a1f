"""The picture of a packed set by the name that messages and files give it: `DIR/000003.tar#17`."""

import re
from pathlib import Path

from lun.data.index.dir_handle import FileInMemory
from lun.data.packs.shard_samples import Samples
from lun.data.packs.storage import Folder

_NAME = re.compile(r"(?P<shard>[^/\\#]+\.tar)#(?P<row>\d+)")


def picture_of(name: str) -> FileInMemory | None:
    """The file of a picture as it was packed; None for what names none of a set in a folder of this machine.

    Raises `Fault` DAT13 or DAT14 for a set that cannot be read.
    """
    folder, _, last = name.rpartition("/")
    found = _NAME.fullmatch(last)
    if not found or "://" in folder or not Path(folder).is_dir():
        return None
    samples = Samples(Folder(Path(folder)))
    shards = {samples.table.name(shard): shard for shard in range(len(samples.table.lengths))}
    shard, row = shards.get(found["shard"]), int(found["row"])
    if shard is None or row >= samples.table.lengths[shard]:
        return None
    return samples[int(samples.table.ends[shard]) - int(samples.table.lengths[shard]) + row].picture
