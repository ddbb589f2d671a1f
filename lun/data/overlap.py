"""Whether validation looks at pictures that training learns from."""

import logging
import os
from typing import Any

import numpy as np

from lun.data.index.store import path_keys
from lun.data.local import Local

log = logging.getLogger(__name__)


def count_overlap(first: Local, second: Local) -> int:
    """How many files both data sets read."""
    return len(np.intersect1d(_files(first), _files(second)))


def _files(data: Local) -> np.ndarray:
    root = os.path.realpath(data.root)
    return path_keys(os.path.join(root, name) for name in data.names())


def warn_of_overlap(train: Any, validation: Any) -> None:
    """Warn where pictures of a validation set are trained on; sets of other classes are not judged."""
    if not (isinstance(train, Local) and isinstance(validation, Local)):
        return
    shared = count_overlap(train, validation)
    if shared:
        log.warning(
            "warning[DAT10]: %s of the %s images for validation are trained on; its loss says nothing of others\n"
            "  fix:   split: {fraction: 0.02, by: hash} in the params of both, subset: train and subset: validation",
            f"{shared:,}",
            f"{len(validation):,}",
        )
