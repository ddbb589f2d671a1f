"""Datasets in memory that offer all that a dataset may offer."""

from collections.abc import Sequence

import numpy as np
import torch

from ldm.diffusion.draws import Draws


class Painted:
    """Pictures of given sizes; each is filled with its own number / 100, but for noise that its slot decides."""

    def __init__(
        self,
        sizes: Sequence[tuple[int, int]],
        repeats: Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
        bad: Sequence[int] = (),
    ) -> None:
        self._sizes = np.array(sizes, dtype=np.int32)
        self._repeats = np.array(repeats if repeats is not None else [1] * len(sizes))
        self._weights = None if weights is None else np.array(weights, dtype=np.float32)
        self.bad = frozenset(bad)

    def __len__(self) -> int:
        return len(self._sizes)

    def sizes(self) -> np.ndarray:
        return self._sizes

    def repeats(self) -> np.ndarray:
        return self._repeats

    def weights(self) -> np.ndarray | None:
        return self._weights

    def path(self, index: int) -> str:
        return f"img/{index}.png"

    def example(self, index: int, draws: Draws, size: tuple[int, int] | None = None) -> dict:
        from ldm.errors import Fault

        if index in self.bad:
            raise Fault("DAT06", f"cannot read image img/{index}.png", why="truncated")
        width, height = size or (2, 2)
        noise = torch.rand((), generator=draws("flip")) / 1000
        return {"image": torch.full((height, width, 3), index / 100) + noise, "caption": f"picture {index}"}
