"""Weights that FSDP2 has spread over the ranks: this rank's parts, the whole, and the way from one to the other."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from ldm.modules.ema_source import LocalParameters


class Shards:
    """What an EMA averages: this rank's parts of the parameters that train, under the names of the whole ones."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._parameters = LocalParameters(module)

    def tensors(self) -> dict[str, Tensor]:
        return {name: tensor.to_local() for name, tensor in self._sharded().items()}

    def shapes(self) -> dict[str, torch.Size]:
        return {name: tensor.shape for name, tensor in self._sharded().items()}

    def whole(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        like = self._sharded()
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


@torch.no_grad()
def whole_on_first_rank(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Whole tensors on the CPU of rank 0, one after the other; empty on the other ranks. Collective."""
    found = {}
    for name, tensor in tensors.items():
        whole = _on_mesh(tensor).full_tensor() if isinstance(tensor, DTensor) else tensor
        if distributed.get_rank() == 0:
            found[name] = whole.cpu()
    return found


@torch.no_grad()
def cut(whole: Tensor, like: DTensor) -> DTensor:
    """A whole tensor spread as `like` is; every rank has it, so that nothing is sent."""
    spread: Any = distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None).to(like.device)
    return spread


def optimizer_state(optimizer: Optimizer) -> dict[str, Any]:
    """An optimizer's state as without shards, on rank 0; empty on the other ranks. Collective."""
    stored = optimizer.state_dict()
    named = {(index, key): v for index, entry in stored["state"].items() for key, v in entry.items()}
    tensors = {str(place): value for place, value in named.items() if isinstance(value, DTensor)}
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
