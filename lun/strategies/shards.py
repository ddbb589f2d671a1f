"""Weights that FSDP2 has spread over the ranks: this rank's parts, the whole, and the way from one to the other."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from ldm.ema.model_weights import LocalParameters
from ldm.files.lazy_tensor import LazyShardedTensor, Run, elements_between
from lun.strategies.checkpoint_parts import StateDicts, share_of_parameters


class ShardedParameters:
    """What an EMA averages: this rank's parts of the parameters that train, under the names of the whole ones."""

    def __init__(self, module: nn.Module, states: StateDicts | None = None) -> None:
        self._module = module
        self._states = states or StateDicts()
        self._parameters = LocalParameters(module)

    def tensors(self) -> dict[str, Tensor]:
        return {name: tensor.to_local() for name, tensor in self._sharded().items()}

    def shapes(self) -> dict[str, torch.Size]:
        return {name: tensor.shape for name, tensor in self._sharded().items()}

    def whole(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        like = self._sharded()
        if self._states.sharded:
            return {name: lazy_shard(part, like[name]) for name, part in parts.items()}
        return whole_on_first_rank({name: _joined(part, like[name]) for name, part in parts.items()})

    def own(self, whole: Mapping[str, Tensor]) -> dict[str, Tensor]:
        like = self._sharded()
        return {name: cut(tensor, like[name]).to_local() for name, tensor in whole.items()}

    def written(self) -> None:
        """Whole weights that are still around are those from before."""
        let_go_of_whole(self._module)

    def _sharded(self) -> dict[str, Any]:
        let_go_of_whole(self._module)
        return {name: tensor.detach() for name, tensor in self._parameters.tensors().items()}


def let_go_of_whole(module: nn.Module) -> None:
    """Let go of whole weights that a forward pass left behind, so that parameters are this rank's parts."""
    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


def module_state(module: nn.Module, sharded: bool = False) -> dict[str, Tensor]:
    """A module's state: whole, on rank 0, or `sharded`, on each rank what it holds. Collective."""
    state = module.state_dict()
    if not sharded:
        return whole_on_first_rank(state)
    held = {name: lazy_shard(value.to_local(), value) for name, value in state.items() if isinstance(value, DTensor)}
    frozen = share_of_parameters(module, {name: value for name, value in state.items() if name not in held})
    return {name: held[name] if name in held else frozen[name] for name in state}


@torch.no_grad()
def whole_on_first_rank(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Whole tensors on the CPU of rank 0, one after the other; empty on the other ranks. Collective."""
    gathered = {}
    for name, tensor in tensors.items():
        whole = _on_mesh(tensor).full_tensor() if isinstance(tensor, DTensor) else tensor
        if distributed.get_rank() == 0:
            gathered[name] = whole.cpu()
    return gathered


def lazy_shard(part: Tensor, like: DTensor) -> LazyShardedTensor:
    """The tensor of which `part` is this rank's, as `like` is laid out; copies of shards share the work."""
    (start, length), copy, copies = own_run(like), *_copy(like)
    first, last = length * copy // copies, length * (copy + 1) // copies
    return LazyShardedTensor(like.shape, part.dtype, [Run(start + first, part.detach().reshape(-1)[first:last])])


def own_run(like: DTensor) -> tuple[int, int]:
    """(start, length) of this rank's part among the elements of the flattened whole: FSDP2 cuts the first dimension.

    Parts are of equal size but for the last ones, as `torch.chunk` cuts.
    """
    mesh, rows = like.device_mesh, like.shape[0]
    (axis,) = (axis for axis, placement in enumerate(like.placements) if placement.is_shard(0))
    size = -(-rows // mesh.size(axis))
    first = min(size * mesh.get_local_rank(axis), rows)
    row = like.numel() // rows if rows else 0
    return first * row, (min(first + size, rows) - first) * row


def _copy(like: DTensor) -> tuple[int, int]:
    """Which copy of the shards this rank's is, and how many there are."""
    axes = [axis for axis, placement in enumerate(like.placements) if placement.is_replicate()]
    copy, copies = 0, 1
    for axis in axes:
        copy = copy * like.device_mesh.size(axis) + like.device_mesh.get_local_rank(axis)
        copies *= like.device_mesh.size(axis)
    return copy, copies


@torch.no_grad()
def cut(whole: Tensor, like: DTensor) -> DTensor:
    """A whole tensor spread as `like` is; every rank has it, or reads of it what is its own: nothing is sent."""
    start, length = own_run(like)
    part = elements_between(whole, start, start + length).reshape(like.to_local().shape)
    return cast(DTensor, _joined(part.clone(), like).to(like.device))


def optimizer_state(optimizer: Optimizer, sharded: bool = False) -> dict[str, Any]:
    """An optimizer's state: whole, on rank 0, or `sharded`, on each rank what it holds. Collective."""
    stored = optimizer.state_dict()
    named = {(index, key): v for index, entry in stored["state"].items() for key, v in entry.items()}
    tensors = {str(place): value for place, value in named.items() if isinstance(value, DTensor)}
    if sharded:
        whole: Mapping[str, Tensor] = {
            place: lazy_shard(tensor.to_local(), tensor) for place, tensor in tensors.items()
        }
    else:
        whole = whole_on_first_rank(tensors)
        if distributed.get_rank() != 0:
            return {}
    state = {i: {key: whole.get(str((i, key)), v) for key, v in entry.items()} for i, entry in stored["state"].items()}
    return {**stored, "state": state}


def load_optimizer_state(optimizer: Optimizer, stored: Mapping[str, Any]) -> None:
    """Take what `optimizer_state`, or an optimizer of whole weights, gave."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state = {
        index: {key: _like(value, parameters[index]) for key, value in entry.items()}
        for index, entry in stored["state"].items()
    }
    optimizer.load_state_dict({**stored, "state": state})


def _like(value: Any, parameter: Tensor) -> Any:
    if isinstance(value, Tensor) and isinstance(parameter, DTensor) and value.shape == parameter.shape:
        return cut(value, parameter)
    return value


def _joined(part: Tensor, like: DTensor) -> DTensor:
    mesh, shape = like.device_mesh, like.shape
    part = part.to(mesh.device_type)
    return DTensor.from_local(part, mesh, like.placements, run_check=False, shape=shape, stride=like.stride())


def _on_mesh(tensor: DTensor) -> Any:
    """Offloaded parts lie on the CPU, where the mesh's collectives do not reach."""
    return tensor.to(tensor.device_mesh.device_type)
