"""Whether validation looks at pictures that training learns from."""

import logging
from typing import Any

import numpy as np

from lun.data.dataset_protocol import DatasetAccess
from lun.data.index.store import path_keys

log = logging.getLogger(__name__)


def count_overlap(first: Any, second: Any) -> int:
    """How many examples both datasets read; 0 where one of them does not tell its paths."""
    paths = DatasetAccess(first).paths(), DatasetAccess(second).paths()
    if paths[0] is None or paths[1] is None:
        return 0
    return len(np.intersect1d(path_keys(paths[0]), path_keys(paths[1])))


def warn_of_overlap(train: Any, validation: Any) -> None:
    """Warn where pictures of a validation set (None: there is none) are trained on."""
    shared = 0 if validation is None else count_overlap(train, validation)
    if shared:
        log.warning(
            "warning[DAT10]: %s of the %s images for validation are trained on; its loss says nothing of others\n"
            "  fix:   split: {fraction: 0.02, by: hash} in the params of both, subset: train and subset: validation",
            f"{shared:,}",
            f"{len(validation):,}",
        )
