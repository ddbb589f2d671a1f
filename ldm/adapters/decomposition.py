"""Changes of weights as products of two narrow matrices, by singular values: what a LoRA of some rank can hold."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ldm.errors import Fault
from ldm.transfers import in_double

EXACT_SIDE = 512
"""Up to this, the shorter side of a matrix, all singular values are computed; beyond, where a few of them are asked
for, those by random projections (Halko et al. 2011, arXiv 0909.4061), which take a twentieth of the time."""
SPARE = 8  # columns of the projections beyond the rank, which bring them within 1-2 % of the best error


@dataclass(frozen=True)
class Factors:
    """A matrix (out, n) as up diag(values) down: up (out, k), values (k,) falling, down (k, n); fp32.

    whole  whether these are all of its singular values, or the largest of them
    """

    up: Tensor
    values: Tensor
    down: Tensor
    whole: bool = True

    def cut(self, rank: int) -> "Factors":
        """Its best approximation of this rank (Eckart and Young 1936)."""
        return Factors(self.up[:, :rank], self.values[:rank], self.down[:rank], self.whole)

    def product(self) -> Tensor:
        """The matrix (out, n)."""
        return (self.up * self.values) @ self.down

    def tensors(self, shape: torch.Size) -> dict[str, Tensor]:
        """As kohya's files hold a LoRA of a layer whose weight has this shape; alpha is the rank, so the scale is 1."""
        rank, kernel = self.values.shape[0], shape[2:]
        return {
            "lora_down.weight": self.down.reshape(rank, shape[1], *kernel).contiguous(),
            "lora_up.weight": (self.up * self.values).reshape(shape[0], rank, *(1 for _ in kernel)).contiguous(),
            "alpha": torch.tensor(float(rank)),
        }


def decompose(change: Tensor, few: int | None = None, seed: int = 0) -> Factors:
    """The factors of a matrix (out, n), or its `few` largest ones where all would take long; the same for a seed."""
    matrix = change.float()
    if few is None or min(matrix.shape) <= max(EXACT_SIDE, few + SPARE):
        up, values, down = torch.linalg.svd(matrix, full_matrices=False)
        return Factors(up, values, down)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        up, values, columns = torch.svd_lowrank(matrix, q=few + SPARE, niter=4)
    return Factors(up, values, columns.T, whole=False)


def decompose_product(up: Tensor, down: Tensor) -> Factors:
    """The factors of up @ down, (out, k) and (k, n), without their product: nothing larger than k x k is decomposed."""
    left, upper = torch.linalg.qr(up.float())
    right, lower = torch.linalg.qr(down.float().T)
    inner, values, outer = torch.linalg.svd(upper @ lower.T, full_matrices=False)
    return Factors(left @ inner, values, outer @ right.T)


@dataclass(frozen=True)
class RankRule:
    """How many singular values of a change are kept.

    most      at most this many; None for no limit
    measure   one of `MEASURES`, or empty: then as many as `most`
    bound     of that measure
    """

    most: int | None
    measure: str = ""
    bound: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "RankRule":
        """Of `16`, `error=0.1` or `16,error=0.1`. Raises `Fault` CLI03 for anything else."""
        given: dict[str, Any] = {}
        for word in text.split(","):
            name, equals, number = (part.strip() for part in word.partition("="))
            if not equals and name.isdecimal() and int(name) > 0 and "most" not in given:
                given["most"] = int(name)
            elif name in MEASURES and "measure" not in given and (bound := MEASURES[name].bound(number)) is not None:
                given |= {"measure": name, "bound": bound}
            else:
                raise _no_rule(text)
        return cls(given.pop("most", None), **given)

    def of(self, values: Tensor) -> int:
        """The rank by falling singular values (k,), all of them: at least 1."""
        ranks = len(values) if not self.measure else MEASURES[self.measure].rank(in_double(values), self.bound)
        return max(1, min(ranks, self.most or len(values), len(values)))

    @property
    def few(self) -> int | None:
        """How many singular values settle it; None where all are needed."""
        return None if self.measure else self.most

    def __str__(self) -> str:
        bound = f"{self.measure}={self.bound:g}" if self.measure else ""
        return ",".join(filter(None, [str(self.most) if self.most else "", bound]))


@dataclass(frozen=True)
class Measure:
    """A bound by which a rank is chosen.

    rank   (falling singular values (k,) in fp64, bound) -> the fewest of them that keep it
    least  the bound is more than this
    """

    says: str
    rank: Callable[[Tensor, float], int]
    least: float
    most: float = math.inf

    def bound(self, text: str) -> float | None:
        """The number, where it can be a bound."""
        try:
            number = float(text)
        except ValueError:
            return None
        return number if self.least < number < self.most else None


def _first(reached: Tensor) -> int:
    """The number of values up to the first at which something holds; all where it never does."""
    return int(reached.nonzero()[0]) + 1 if bool(reached.any()) else len(reached)


def _by_energy(values: Tensor, share: float) -> int:
    squares = values.square()
    return _first(squares.cumsum(0) >= share * squares.sum())


MEASURES: Mapping[str, Measure] = {
    "error": Measure(
        "|left out| / |change| of each layer is at most this",
        lambda values, most: _by_energy(values, 1 - most**2),
        0.0,
        1.0,
    ),
    "energy": Measure("this share of the sum of squared singular values is kept", _by_energy, 0.0, 1.0),
    "cumulative": Measure(
        "this share of the sum of singular values is kept",
        lambda values, share: _first(values.cumsum(0) >= share * values.sum()),
        0.0,
        1.0,
    ),
    "ratio": Measure(
        "singular values are kept down to the largest divided by this",
        lambda values, ratio: int((values * ratio >= values[0]).sum()),
        1.0,
    ),
}


def _no_rule(text: str) -> Fault:
    why = "it is a number, or one of " + "; ".join(f"{name}: {measure.says}" for name, measure in MEASURES.items())
    return Fault("CLI03", f"{text!r} is no rank", why=why, fix="16, error=0.1, or both: 16,error=0.1")
