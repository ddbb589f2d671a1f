"""The losses of single pictures over a run, made comparable between noise levels."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

TRACE = 32
"""Points of a picture's course; of a longer one every second is kept, then every fourth ..."""
FADES = 0.9
"""What an earlier look at a picture counts of the next one."""
MEMORY = 64
"""Examples of a noise level whose losses its mean and deviation look back on."""
KNOWN = 8
"""Examples of a level before anything is compared with it."""
LEVELS, WIDTH = 50, 0.5
"""Bins of ln SNR, from -12 to 12 and beyond."""


class Residual(NamedTuple):
    """deviations  ln of the loss less its level's mean, in standard deviations of the level
    loss        what it would be at the mean of all levels
    """

    deviations: float
    loss: float


class Levels:
    """Running mean and variance of ln loss in narrow bins of the noise level, and over all of them."""

    def __init__(self, numbers: Sequence[Sequence[float]] | None = None) -> None:
        empty = [(0.0, 0.0, 0.0)] * (LEVELS + 1)
        self.numbers = [tuple(row) for row in numbers or empty]  # count, mean, variance; the last row is of all levels

    def residual(self, log_snr: float, loss: float) -> Residual | None:
        """How a loss stands to others at its level; None while too few of these are known."""
        count, mean, variance = self.numbers[_bin(log_snr)]
        if count < KNOWN:
            return None
        above = math.log(loss) - mean
        return Residual(above / math.sqrt(variance + 1e-12), math.exp(self.numbers[-1][1] + above))

    def add(self, log_snr: float, loss: float) -> None:
        logarithm = math.log(loss)
        for row in (_bin(log_snr), LEVELS):
            count, mean, variance = self.numbers[row]
            share, above = 1 / min(count + 1, MEMORY), logarithm - mean
            self.numbers[row] = count + 1, mean + share * above, (1 - share) * (variance + share * above * above)


def _bin(log_snr: float) -> int:
    return int(min(max((log_snr + LEVELS * WIDTH / 2) // WIDTH, 0), LEVELS - 1))


class PictureCourse(NamedTuple):
    """One picture's course: how often it was looked at, and what stands of it in `pictures.json`."""

    example: int
    n: int
    loss: float
    excess: float
    first: float
    trace: list[list[float]]


class PictureCourses:
    """The losses of pictures by their number in the data set.

    excess  mean deviation from the picture's noise levels, later looks counting more, drawn towards 0 where they are
            few: sum / (looks + 1)
    """

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._numbers = np.zeros((0, 7))  # n, looks, deviations, faded losses, their weight, first, stride of the trace
        self._traces = np.zeros((0, TRACE, 2), np.float32)
        self._lengths = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, example: int, step: int, loss: float, deviations: float | None, lasting: float = FADES) -> None:
        """Take in a look at a picture.

        deviations  None where its level is not known yet
        lasting     what earlier losses count of the next one in `loss`; 0 keeps the last one alone
        """
        row = self._row(example)
        n, looks, total, losses, weight, first, stride = self._numbers[row]
        if deviations is not None:
            looks, total = FADES * looks + 1, FADES * total + deviations
        losses, weight = lasting * losses + loss, lasting * weight + 1
        stride = self._trace(row, int(n), max(int(stride), 1), step, loss)
        self._numbers[row] = n + 1, looks, total, losses, weight, first if n else loss, stride

    def _row(self, example: int) -> int:
        row = self._rows.setdefault(example, len(self._rows))
        if row == len(self._lengths):
            more = max(64, row)
            self._numbers = np.concatenate([self._numbers, np.zeros((more, 7))])
            self._traces = np.concatenate([self._traces, np.zeros((more, TRACE, 2), np.float32)])
            self._lengths = np.concatenate([self._lengths, np.zeros(more, np.int64)])
        return row

    def _trace(self, row: int, n: int, stride: int, step: int, loss: float) -> int:
        """Note every `stride`-th look; returns the stride from here on."""
        if n % stride:
            return stride
        length = self._lengths[row]
        if length == TRACE:
            self._traces[row, : TRACE // 2] = self._traces[row, ::2]
            length, stride = TRACE // 2, 2 * stride
        self._traces[row, length] = step, loss
        self._lengths[row] = length + 1
        return stride

    def shown(self, most: int) -> list[PictureCourse]:
        """All pictures, or as many of those with the most excess as with the least; the most first."""
        examples, excess = np.array([*self._rows], np.int64), self._excess()
        order = np.lexsort((examples, -excess)).tolist()
        ends = order if len(order) <= most else [*order[: most // 2], *order[-(most // 2) :]]
        return [self._picture(int(examples[row]), row) for row in ends]

    def usual_excess(self) -> float:
        """Of all pictures the mean; 0 without any."""
        return float(self._excess().mean()) if self._rows else 0.0

    def _excess(self) -> NDArray[np.float64]:
        _, looks, total = self._numbers[: len(self._rows), :3].T
        return np.asarray(total / (looks + 1))

    def _picture(self, example: int, row: int) -> PictureCourse:
        n, looks, total, losses, weight, first, _ = self._numbers[row].tolist()
        trace = [[int(step), float(loss)] for step, loss in self._traces[row, : self._lengths[row]].tolist()]
        return PictureCourse(example, int(n), losses / weight, total / (looks + 1), first, trace)

    def state_dict(self) -> dict[str, Any]:
        used = len(self._rows)
        return {
            "examples": torch.tensor([*self._rows], dtype=torch.int64),
            "numbers": torch.tensor(self._numbers[:used]),
            "traces": torch.tensor(self._traces[:used]),
            "lengths": torch.tensor(self._lengths[:used]),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._rows = {example: row for row, example in enumerate(state["examples"].tolist())}
        self._numbers = state["numbers"].numpy().copy()
        self._traces = state["traces"].numpy().copy()
        self._lengths = state["lengths"].numpy().copy()
