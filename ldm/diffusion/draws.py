"""Random numbers keyed by what they are for, so that they are the same on any rank, worker, micro-batch or resume.

The law is the key (seed, purpose, slot), not the order of calls: `decisions` about data (crop, flip, caption), the VAE
sample, noise and timestep of an example follow from its slot alone.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b

import torch
from torch import Tensor


def key(seed: int, purpose: str, *numbers: int) -> int:
    """A 63-bit seed for (seed, purpose, numbers); the same on every platform and Python."""
    text = "/".join([str(seed), purpose, *map(str, numbers)])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class Draws:
    """The random draws of one slot: `draws(purpose)` is a fresh CPU generator keyed by (seed, purpose, slot).

    step  completed optimizer steps where the slot is read in training, else None; no draw is keyed by it
    """

    def __init__(self, seed: int, slot: int, step: int | None = None) -> None:
        self.seed = seed
        self.slot = slot
        self.step = step

    def __call__(self, purpose: str) -> torch.Generator:
        return torch.Generator().manual_seed(key(self.seed, purpose, self.slot))


class BatchDraws:
    """The random draws of a batch, one row per slot; every tensor is float32 on the CPU.

    slots: (b,) int64
    """

    def __init__(self, seed: int, slots: Tensor | Sequence[int]) -> None:
        self.rows = [Draws(seed, int(slot)) for slot in (slots.tolist() if isinstance(slots, Tensor) else slots)]

    def __len__(self) -> int:
        return len(self.rows)

    def normal(self, purpose: str, shape: Sequence[int]) -> Tensor:
        """Standard normal numbers: (b, *shape)."""
        return self._draw(torch.randn, purpose, shape)

    def uniform(self, purpose: str, shape: Sequence[int] = ()) -> Tensor:
        """Uniform numbers in [0, 1): (b, *shape)."""
        return self._draw(torch.rand, purpose, shape)

    def _draw(self, law: Callable[..., Tensor], purpose: str, shape: Sequence[int]) -> Tensor:
        # Named, since a trainer may make half precision the default dtype, in which uniform numbers have 256 values.
        plain = {"dtype": torch.float32, "device": "cpu"}
        return torch.stack([law(tuple(shape), generator=row(purpose), **plain) for row in self.rows])
