"""Several datasets read as one: their examples one after the other, each with what its set says of it."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ldm.diffusion.draws import Draws
from ldm.modules.encoders.captions import Caption
from lun.data.dataset_protocol import DatasetAccess
from lun.data.order.law import Size
from lun.data.sets.set_settings import SetSettings
from lun.data.weigher import Weigher, weigher_of

OF_THE_MODEL = -1.0
"""`ucg_rate` of an example whose set says none."""
EVERY_LEVEL = (0, -1)
"""`timesteps` of an example that may be trained at any: from the first to the last."""


class JoinedSets:
    """The examples of `datasets`, as many as there are `settings`, in their order."""

    def __init__(self, settings: Sequence[SetSettings], datasets: Sequence[Any]) -> None:
        self.settings = settings
        self.sets = {one.name: dataset for one, dataset in zip(settings, datasets, strict=True)}
        """NAME -> dataset"""
        self.access = [DatasetAccess(dataset) for dataset in datasets]
        self.weighers = [weigher_of(access) for access in self.access]
        self.ends = np.cumsum([len(dataset) for dataset in datasets])
        self.levels = any(one.timesteps for one in settings)
        self.drops = any(one.ucg_rate is not None for one in settings)
        self.preserves = any(one.kind == "prior" for one in settings)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def first_of(self, name: str) -> int:
        """The index of the first example of a set."""
        which = list(self.sets).index(name)
        return int(self.ends[which - 1]) if which else 0

    def located(self, index: int) -> tuple[int, int]:
        """(which set, index within it) of an example."""
        which = int(np.searchsorted(self.ends, index, side="right"))
        return which, index - (int(self.ends[which - 1]) if which else 0)

    def set_of(self, index: int) -> str:
        """The name of the set that an example belongs to."""
        return self.settings[self.located(index)[0]].name

    def fetch(self, indices: Sequence[int]) -> None:
        own: dict[int, list[int]] = {}
        for which, index in map(self.located, indices):
            own.setdefault(which, []).append(index)
        for which, found in own.items():
            self.access[which].fetch(found)

    def example(self, index: int, draws: Draws, size: Size | None = None) -> Mapping[str, Any]:
        which, own = self.located(index)
        found = self.access[which].read(own, draws, size)
        return {**found, **self._said_of(self.settings[which], found)} if isinstance(found, Mapping) else found

    def _said_of(self, one: SetSettings, found: Mapping[str, Any]) -> dict[str, Any]:
        """What an example carries of its set: its name, and what any set says; a weight of its own counts too."""
        said: dict[str, Any] = {"set": one.name}
        if self.levels:
            said["timesteps"] = one.timesteps or EVERY_LEVEL
        if self.preserves:
            said["kind"] = one.kind
        if "weight" in found:
            said["weight"] = found["weight"] * one.loss_weight
        if self.drops:
            said["ucg_rate"] = OF_THE_MODEL if one.ucg_rate is None else float(one.ucg_rate)
        return said

    def sizes(self) -> np.ndarray:
        return np.concatenate([access.sizes() for access in self.access])

    def weigher(self) -> Weigher | None:
        """How much an example counts, that of its set counted in; None where all count 1."""
        alike = all(own is None for own in self.weighers) and all(one.loss_weight == 1 for one in self.settings)
        return None if alike else self._weight

    def _weight(self, index: int) -> float:
        which, own = self.located(index)
        weigher = self.weighers[which]
        return float(np.float32(self.settings[which].loss_weight) * np.float32(1 if weigher is None else weigher(own)))

    def path(self, index: int) -> Path | str:
        which, own = self.located(index)
        access = self.access[which]
        if access.has("path"):
            found: Path | str = access.dataset.path(own)
            return found
        return f"{self.settings[which].name}: {access.path(own)}"

    def paths(self) -> Sequence[str] | None:
        columns = [access.paths() for access in self.access]
        return None if any(one is None for one in columns) else [path for one in columns for path in one or ()]

    def files(self, index: int) -> Iterable[Path]:
        which, own = self.located(index)
        return self.access[which].files(own)

    def fingerprint(self) -> str:
        lines = (
            f"{one.name}\0{access.fingerprint()}\n" for one, access in zip(self.settings, self.access, strict=True)
        )
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def settled_captions(self, index: int) -> Sequence[Caption]:
        which, own = self.located(index)
        return self.access[which].settled_captions(own)

    @property
    def captions_settled(self) -> bool:
        return all(access.captions_settled for access in self.access)
