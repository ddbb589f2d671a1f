"""Weights that every rank holds, averaged by the ranks together: each keeps the averages of its share of them."""

import heapq
from collections.abc import ItemsView, Mapping
from typing import Any

import torch
from torch import Tensor, distributed, nn

from ldm.ema.model_weights import LocalParameters
from ldm.files.lazy_tensor import LazyShardedTensor, Run
from lun.strategies.checkpoint_parts import StateDicts


class Shares:
    """What an EMA averages under DDP: this rank's share of the parameters that train, whole ones of them.

    So memory for averages, copies to it and arithmetic are divided by the number of ranks. For a swap each rank sends
    its averages to all, and afterwards its raw weights, which are the same everywhere.
    """

    def __init__(self, module: nn.Module, states: StateDicts | None = None) -> None:
        self._states = states or StateDicts()
        self._parameters = LocalParameters(module)
        self._rank = distributed.get_rank()
        sizes = {name: tensor.numel() for name, tensor in self._all()}
        self._owners = owners(sizes, distributed.get_world_size())

    def tensors(self) -> dict[str, Tensor]:
        return self.own(self._parameters.tensors())

    def shapes(self) -> dict[str, torch.Size]:
        return {name: tensor.shape for name, tensor in self._all()}

    @torch.no_grad()
    def whole(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        dtypes: dict[str, torch.dtype] = {}
        dtypes_by_rank: list[Any] = [None] * distributed.get_world_size()
        distributed.all_gather_object(dtypes_by_rank, {name: part.dtype for name, part in parts.items()})
        for each in dtypes_by_rank:
            dtypes |= each
        if self._states.sharded:
            return {name: self._left(name, like.shape, dtypes[name], parts) for name, like in self._all()}
        gathered: dict[str, Tensor] = {}
        for name, like in self._all():
            other = torch.empty(like.shape, dtype=dtypes[name], device=like.device)
            sent = parts[name].to(like.device).contiguous() if name in parts else other
            self._send(name, sent)
            if self._rank == 0:
                gathered[name] = parts.get(name, sent).cpu()
        return gathered

    @staticmethod
    def _left(name: str, shape: torch.Size, dtype: torch.dtype, parts: Mapping[str, Tensor]) -> LazyShardedTensor:
        return LazyShardedTensor(shape, dtype, [Run(0, parts[name].detach().reshape(-1))] if name in parts else [])

    def _all(self) -> ItemsView[str, Tensor]:
        return self._parameters.tensors().items()

    def own(self, whole: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {name: whole[name] for name, owner in self._owners.items() if owner == self._rank}

    @torch.no_grad()
    def written(self) -> None:
        """Every rank gets what the others wrote."""
        for name, tensor in self._all():
            self._send(name, tensor.detach())

    def _send(self, name: str, tensor: Tensor) -> None:
        distributed.broadcast(tensor, self._owners[name])


def owners(sizes: Mapping[str, int], ranks: int) -> dict[str, int]:
    """{name: rank}, in the order of `sizes`, so that the ranks have about as much each: the largest go out first."""
    loads = [(0, rank) for rank in range(ranks)]
    chosen = {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        load, rank = heapq.heappop(loads)
        chosen[name] = rank
        heapq.heappush(loads, (load + sizes[name], rank))
    return {name: chosen[name] for name in sizes}
