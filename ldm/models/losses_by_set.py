"""Losses of the examples of several data sets, each set for itself."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ldm.transfers import to_device


class LossesBySet:
    """Sums on the device, and counts, since they were last taken: nothing is read from the device before."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[Tensor, int]] = {}

    def add(self, sets: Sequence[str], losses: Tensor) -> None:
        """losses (b,) of examples of `sets`, a name for each; no names, nothing to count."""
        losses = losses.detach()
        for name in dict.fromkeys(sets):
            mine = to_device(torch.tensor([float(one == name) for one in sets]), losses.device)
            total, count = self._sums.get(name, (losses.new_zeros(()), 0))
            # Not mine @ losses: a number that is not finite would then be logged of every set.
            self._sums[name] = (total + torch.where(mine > 0, losses, 0.0).sum(), count + sets.count(name))

    def take(self, names: Sequence[str], reduce: Callable[..., Tensor], device: torch.device) -> dict[str, float]:
        """The mean loss of each of the sets `names` of which an example was read on any rank; begins anew.

        reduce  adds up the ranks' tensors, as `reduce(tensor, reduce_op="sum")`. Collective, and the one read.
        """
        taken, self._sums = [self._sums.get(name) for name in names], {}
        sums = torch.stack([one[0].float().to(device) if one else torch.zeros((), device=device) for one in taken])
        counts = torch.tensor([float(one[1]) if one else 0.0 for one in taken], device=device)
        both = reduce(torch.stack([sums, counts]), reduce_op="sum").tolist()
        return {name: total / count for name, total, count in zip(names, *both, strict=True) if count}
