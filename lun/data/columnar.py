"""What samplers, buckets and caches may ask of a data set without opening its pictures."""

from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ldm.diffusion.draws import Draws
from lun.data.example import Example


@runtime_checkable
class Columnar(Protocol):
    """A data set of n examples that tells about all of them in columns; `lun.data.local.Local` is one."""

    def __len__(self) -> int: ...

    def sizes(self) -> NDArray[np.int32]:
        """(n, 2) width and height, turned upright; 0 where the file is no image"""

    def repeats(self) -> NDArray[np.int64]:
        """(n,) how often each comes in one epoch, at least once"""

    def weights(self) -> NDArray[np.float32] | None:
        """(n,) how much each counts in the loss; None: all 1"""

    def path(self, index: int) -> Path:
        """the file of one example"""

    def caption(self, index: int, draws: Draws | None = None) -> str:
        """its caption as `draws` decide; without them nothing is left to chance"""

    def example(self, index: int, draws: Draws, size: tuple[int, int] | None = None) -> Example:
        """picture and caption; `size` = (width, height) is that of a bucket"""

    def fingerprint(self) -> str:
        """sha256 over relative path, size in bytes and repeats of all examples, sorted"""
