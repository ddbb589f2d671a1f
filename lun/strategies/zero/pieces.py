"""Which part of each weight a rank owns under ZeRO: read it, write it, put whole weights together."""

from collections.abc import Container, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn

from ldm.files.lazy_tensor import LazyShardedTensor, Run, elements_between
from lun.strategies.checkpoint_parts import StateDicts
from lun.strategies.zero.deepspeed_internals import (
    partitions_of,
    placed,
    publish,
    require_known_insides,
    shards_weights,
)


@dataclass(frozen=True)
class Piece:
    """A contiguous run of the elements of one trained parameter, in fp32, among this rank's flat partitions.

    name    of the parameter in the module
    shape   of the whole parameter
    flat    the partition that holds the run, None where this rank owns nothing of the parameter
    offset  where the run begins in `flat`
    start   where it begins in the flattened parameter
    length  its elements
    """

    name: str
    shape: torch.Size
    flat: Tensor | None = None
    offset: int = 0
    start: int = 0
    length: int = 0

    def of(self, flat: Tensor) -> Tensor:
        """The run in a tensor laid out like the partition (weights, or a moment of them): a view."""
        return flat.detach().narrow(0, self.offset, self.length)

    def cut(self, whole: Tensor) -> Tensor:
        """The run of a whole parameter: (length,)."""
        return elements_between(whole, self.start, self.start + self.length)


class Partitions:
    """The trained fp32 weights of a module under DeepSpeed's ZeRO optimizer of stage 1, 2 or 3; what an EMA averages.

    zero    the engine's optimizer; what is read of it stands in `deepspeed_internals`
    states  whether states are asked for whole or as shards
    """

    def __init__(self, module: nn.Module, zero: Any, device: torch.device, states: StateDicts | None = None) -> None:
        self.zero = zero
        self.states = states or StateDicts()
        self.device = device
        require_known_insides(zero)
        self.sharded_weights = shards_weights(zero)
        self.pieces = {n: Piece(n, **vars(placed(zero, p))) for n, p in module.named_parameters() if p.requires_grad}

    def only(self, names: Container[str]) -> "Partitions":
        """The same of some parameters."""
        part = copy(self)
        part.pieces = {name: piece for name, piece in self.pieces.items() if name in names}
        return part

    @property
    def flats(self) -> list[Tensor]:
        """This rank's partitions; each is the parameter that the inner optimizer steps."""
        return partitions_of(self.zero)

    def tensors(self) -> dict[str, Tensor]:
        """This rank's runs of the weights by name, as views; empty ones left out."""
        return {name: piece.of(piece.flat) for name, piece in self._owned()}

    def shapes(self) -> dict[str, torch.Size]:
        """The shapes of the whole weights."""
        return {name: piece.shape for name, piece in self.pieces.items()}

    def own(self, whole: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """This rank's runs of whole tensors."""
        return {name: piece.cut(whole[name]) for name, piece in self._owned() if name in whole}

    def whole(self, local: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole fp32 tensors on the CPU of rank 0 from all ranks' runs; empty on the others. Collective.

        Where states are sharded, on all ranks what they hold.
        """
        return self._collected(self.pieces, lambda piece: local.get(piece.name))

    def weights(self) -> dict[str, Tensor]:
        """The whole fp32 weights, as `whole` gives them."""
        return self.whole(self.tensors())

    def write(self, whole: Mapping[str, Tensor]) -> None:
        """Set the fp32 weights from whole tensors; `written` has to follow."""
        for name, values in self.own(whole).items():
            self.local_of(name).copy_(values)

    def local_of(self, name: str) -> Tensor:
        piece = self.pieces[name]
        assert piece.flat is not None
        return piece.of(piece.flat)

    def state(self, key: str, names: Iterable[str]) -> dict[str, Tensor]:
        """A quantity of the inner optimizer (`exp_avg`), whole, as `whole` gives it. Collective."""
        states = self.zero.optimizer.state
        return self._collected(names, lambda piece: None if piece.flat is None else piece.of(states[piece.flat][key]))

    @torch.no_grad()
    def written(self) -> None:
        """After fp32 weights were set: bring what the network computes with up to date. Collective."""
        publish(self.zero)

    def _owned(self) -> list[tuple[str, Any]]:
        return [(name, piece) for name, piece in self.pieces.items() if piece.flat is not None and piece.length]

    @torch.no_grad()
    def _collected(self, names: Iterable[str], local: Any) -> dict[str, Tensor]:
        result: dict[str, Tensor] = {}
        if self.states.sharded:
            for name in names:
                piece, run = self.pieces[name], local(self.pieces[name])
                runs = [Run(piece.start, run.detach())] if run is not None and piece.length else []
                result[name] = LazyShardedTensor(piece.shape, torch.float32, runs)
            return result
        for name in names:
            piece = self.pieces[name]
            buffer = torch.zeros(piece.shape.numel(), device=self.device)
            if (run := local(piece)) is not None and piece.length:
                buffer[piece.start : piece.start + piece.length] = run.to(self.device)
            if distributed.get_world_size() > 1:
                distributed.all_reduce(buffer)
            if distributed.get_rank() == 0:
                result[name] = buffer.view(piece.shape).cpu()
        return result
