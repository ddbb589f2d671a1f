"""Pictures that are held out and trained on all the same, by their looks."""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ldm.cpus import available_cpus
from lun.data.dataset_protocol import DatasetAccess
from lun.data.images.difference_hash import difference_hash
from lun.data.images.near_hashes import near

log = logging.getLogger(__name__)

Copies = list[list[str]]
"""[held out, trained on] by path."""


def held_out_copies(train: Any, held_out: Any, compare: int) -> Copies:
    """Pictures of `held_out` that look like one of the first `compare` of `train`, and a warning that names some.

    Nothing of data sets that do not name their files. Reads each of these pictures once, small.
    """
    both = [DatasetAccess(one) for one in (held_out, train)]
    places = [(which, index) for which, access in enumerate(both) for index in range(min(len(access), compare))]
    with ThreadPoolExecutor(available_cpus()) as pool:
        prints = pool.map(lambda place: _print_of(both[place[0]], place[1]), places)
    found = [(place, print_) for place, print_ in zip(places, prints, strict=True) if print_ is not None]
    copies: Copies = []
    for group in near(np.array([print_ for _, print_ in found], np.uint64)):
        here = [found[place][0] for place in group]
        trained = next((both[1].path(index) for which, index in here if which == 1), None)
        if trained is not None:
            copies += [[both[0].path(index), trained] for which, index in here if which == 0]
    if copies:
        log.warning(
            "warning[DAT10]: %d of the pictures for validation look like one that is trained on, such as %s and %s;"
            " the loss of these says nothing of others",
            *(len(copies), *copies[0]),
        )
    if compare and len(both[1]) > compare:
        log.info(
            "note: pictures held out are compared with %d of %d in training; lun.inspect --duplicates all compares all",
            *(compare, len(both[1])),
        )
    return copies


def _print_of(access: DatasetAccess, index: int) -> int | None:
    files = access.files(index)
    return difference_hash(files[0]) if files else None
