"""How often each tag occurs in a data set, for what exported weights say of their training."""

from collections import Counter
from typing import Any

import numpy as np

from lun.data.local import Local
from lun.data.metadata.compose import split_tags

MOST = 500
"""Tags that are told; a board has tens of thousands, most of them once."""

READ_AT_MOST = 20_000
"""Captions in text files are counted up to so many pictures, since each file has to be opened."""


def tag_frequency(dataset: Any) -> dict[str, dict[str, int]]:
    """{name of the folder: {tag: pictures that have it}}, the most frequent first; empty where there are no tags.

    Tags are those of descriptions as they were written, before any rule; in text captions, what stands between commas.
    """
    if not isinstance(dataset, Local):
        return {}
    counts = _described(dataset) or _written(dataset)
    return {dataset.root.name: dict(counts.most_common(MOST))} if counts else {}


def _described(data: Local) -> Counter[str]:
    numbers = np.bincount(data.table.take(data.rows).tags.values, minlength=len(data.table.words))
    return Counter({data.table.words[number]: int(numbers[number]) for number in np.flatnonzero(numbers)})


def _written(data: Local) -> Counter[str]:
    if len(data) > READ_AT_MOST:
        return Counter()
    captions = (data.caption(index) for index in range(len(data)))
    return Counter(tag for caption in captions for tag in dict.fromkeys(split_tags(caption, ",")))
