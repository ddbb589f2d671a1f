"""How much an example counts in the loss, asked for one by one: of 10^9 examples no column is kept."""

from collections.abc import Callable
from functools import partial
from typing import Any

from numpy.typing import NDArray

from lun.data.dataset_protocol import DatasetAccess

Weigher = Callable[[int], float]
"""Index of an example -> its weight; one that a loader can hand to its processes.

A dataset's `weigher()` gives it in place of the column `weights` of `FullDataset`, or None where all count alike.
"""


def weigher_of(access: DatasetAccess) -> Weigher | None:
    """The dataset's own, else one over its column; None where all examples count alike."""
    if access.has("weigher"):
        own: Weigher | None = access.dataset.weigher()
        return own
    column = access.weights()
    return None if column is None else partial(_one_of, column)


def _one_of(column: NDArray[Any], index: int) -> float:
    return float(column[index])
