"""The ways in which a picture is kept: both ways round, or several variants of what chance makes of it."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.dataset_protocol import DatasetAccess

WHERE = "data.params.cache.variants"
WITHOUT = "crop: random, crop: {resized: ...}, colour_jitter and rotate"


class Ways(Protocol):
    """Numbered ways of every picture of a dataset; `kept` are those that an access may meet, of `count`."""

    @property
    def count(self) -> int: ...

    @property
    def kept(self) -> Sequence[int]: ...

    def met(self, draws: Draws) -> int:
        """The way of an access with these draws."""

    def look(self, content: int, way: int) -> tuple[bool, Draws]:
        """Whether it is mirrored, and the draws of all else; `content` is the number of what the files hold."""

    def label(self, way: int) -> str:
        """What its entries are named by, beside the file, the preparation and the size."""


class BothWaysRound:
    """As it is (0) and mirrored (1): the ways of a picture of which nothing else is left to chance."""

    count = 2

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        probability = getattr(dataset, "flip_p", 0.5)
        self.kept = (0,) if probability <= 0 else (1,) if probability >= 1 else (0, 1)

    def met(self, draws: Draws) -> int:
        return int(self.dataset.flipped(draws))

    def look(self, content: int, way: int) -> tuple[bool, Draws]:
        return bool(way), Draws(content, way)

    def label(self, way: int) -> str:
        return str(bool(way))


class Variants:
    """`count` times cut, coloured, turned and mirrored anew, each time by the draws of (content, number)."""

    def __init__(self, dataset: Any, count: int) -> None:
        self.dataset = dataset
        self.count = count
        self.kept = range(count)

    def met(self, draws: Draws) -> int:
        return int(torch.randint(self.count, (), generator=draws("variant")))

    def look(self, content: int, way: int) -> tuple[bool, Draws]:
        draws = Draws(content, way)
        return self.dataset.flipped(draws), draws

    def label(self, way: int) -> str:
        return f"variant {way} flip_p={getattr(self.dataset, 'flip_p', None)}"


def ways_of(dataset: Any, variants: int) -> Ways:
    """How the pictures of `dataset` are kept. Raises `Fault` CFG08 where they need several variants."""
    varied = DatasetAccess(dataset).varied
    require_variants(variants, varied)
    return Variants(dataset, variants) if varied else BothWaysRound(dataset)


def require_variants(variants: int, varied: bool) -> None:
    """Raise `Fault` CFG08 for pictures of which chance decides about more than the mirroring, kept once each."""
    if varied and variants == 1:
        raise Fault(
            "CFG08",
            "a cache would cut pictures once and for all that are to be drawn anew",
            where="data.params.cache",
            why=f"they have some of {WITHOUT}",
            fix=f"{WHERE}=4, which keeps each picture four times; or data.params.cache=false",
        )


def require_effect(variants: int, varied: Sequence[bool]) -> None:
    """Raise `Fault` CFG08 for variants where of no set's pictures anything is drawn but the mirroring."""
    if variants > 1 and not any(varied):
        raise Fault(
            "CFG08",
            f"{WHERE} has no effect",
            where=WHERE,
            why=f"no set has {WITHOUT}; both ways round of a picture are kept in any case",
            fix="delete the line",
        )
