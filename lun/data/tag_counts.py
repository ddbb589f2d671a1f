"""How often each tag occurs in a dataset, for what exported weights say of their training."""

from collections import Counter
from typing import Any

from lun.data.dataset_protocol import DatasetAccess
from lun.data.metadata.compose import split_tags

MOST = 500
"""Tags that are written; a board has tens of thousands, most of them once."""

READ_AT_MOST = 20_000
"""Captions are counted up to so many examples, since each may have a file to be opened."""


def tag_frequency(dataset: Any) -> dict[str, dict[str, int]]:
    """{name of the dataset, or of each set: {tag: examples that have it}}, the most frequent first; {} without tags.

    Tags are those of descriptions as they were written, before any rule; in text captions, what stands between commas.
    """
    if sets := getattr(dataset, "sets", None):
        return {name: dict(_counts(DatasetAccess(one)).most_common(MOST)) for name, one in sets.items()}
    access = DatasetAccess(dataset)
    counts = _counts(access)
    return {access.title: dict(counts.most_common(MOST))} if counts else {}


def _counts(access: DatasetAccess) -> Counter[str]:
    return access.tag_counts() or _written(access)


def _written(access: DatasetAccess) -> Counter[str]:
    """Tags in the captions of a dataset that gives these without opening pictures."""
    if not access.has("caption") or len(access) > READ_AT_MOST:
        return Counter()
    captions = (access.dataset.caption(index) for index in range(len(access)))
    return Counter(tag for caption in captions for tag in dict.fromkeys(split_tags(caption, ",")))
