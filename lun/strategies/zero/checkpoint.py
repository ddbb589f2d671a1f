"""ZeRO's partitions as an ordinary checkpoint (fp32 weights, torch's optimizer state) and back, for any world size."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, distributed, nn

from ldm.files.lazy_tensor import share
from lun.strategies.zero.pieces import Partitions

Groups = list[list[str]]
"""The names of the parameters of each of the optimizer's groups, in torch's order."""

# Which kernel steps an optimizer is a matter of this start, not of the file.
_KERNELS = ("fused", "foreach", "capturable")


def module_state(module: nn.Module, partitions: Partitions) -> dict[str, Tensor]:
    """All weights and buffers of the module, whole, trained ones in fp32; empty on ranks other than 0. Collective.

    Where states are sharded, on all ranks what they hold.
    """
    trained = partitions.weights()
    frozen = _frozen(module, partitions)
    if distributed.get_rank() != 0 and not partitions.states.sharded:
        return {}
    return module.state_dict() | frozen | trained


def load_module_state(module: nn.Module, partitions: Partitions, state: Mapping[str, Tensor], strict: bool) -> None:
    """Set what `module_state` gave, on all ranks; RuntimeError for names that are missing or unknown."""
    own = module.state_dict().keys()
    missing, unknown = sorted(own - state.keys()), sorted(state.keys() - own)
    if strict and (missing or unknown):
        raise RuntimeError(f"weights that the checkpoint lacks: {missing[:3]}, that are unknown: {unknown[:3]}")
    partitions.write({name: value for name, value in state.items() if name in partitions.pieces})
    partitions.written()
    frozen = {name: p for name, p in module.named_parameters() if name not in partitions.pieces}
    for name, target in (frozen | _buffers(module)).items():
        if name in state:
            with _gathered([target], partitions.sharded_weights and name in frozen, writing=True):
                target.data.copy_(state[name])


def optimizer_state(partitions: Partitions, groups: Groups) -> dict[str, Any]:
    """The inner optimizer's state as torch would have saved it; empty on ranks other than 0. Collective.

    Where states are sharded, on all ranks what they hold.
    """
    inner = partitions.zero.optimizer
    order = [name for names in groups for name in names]
    numbers = {name: index for index, name in enumerate(order)}
    state: dict[int, dict[str, Any]] = {numbers[name]: {} for name in order}
    for key, flat_sized in _keys(partitions).items():
        if flat_sized:
            for name, value in partitions.state(key, order).items():
                state[numbers[name]][key] = value
        else:
            for name in order:
                state[numbers[name]][key] = _scalar(partitions, name, key)
    if distributed.get_rank() != 0 and not partitions.states.sharded:
        return {}
    settings = [{k: v for k, v in group.items() if k != "params"} for group in inner.param_groups]
    listed = [[numbers[name] for name in names] for names in groups]
    return {
        "state": {number: values for number, values in state.items() if values},
        "param_groups": [own | {"params": params} for own, params in zip(settings, listed, strict=True)],
    }


@torch.no_grad()
def load_optimizer_state(partitions: Partitions, groups: Groups, saved: Mapping[str, Any]) -> None:
    """Set what `optimizer_state` gave, or what torch's own optimizer saved. Not collective."""
    inner = partitions.zero.optimizer
    for own, theirs in zip(inner.param_groups, saved["param_groups"], strict=True):
        own.update({k: v for k, v in theirs.items() if k != "params" and k not in _KERNELS})
    numbers = (number for group in saved["param_groups"] for number in group["params"])
    for name, number in zip((name for names in groups for name in names), numbers, strict=True):
        _load_one(partitions, name, saved["state"].get(number, {}))


def _load_one(partitions: Partitions, name: str, values: Mapping[str, Any]) -> None:
    piece = partitions.pieces[name]
    if piece.flat is None:
        return
    state = partitions.zero.optimizer.state[piece.flat]
    for key, value in values.items():
        if isinstance(value, Tensor) and value.numel() == piece.shape.numel() and value.ndim == len(piece.shape):
            if key not in state:
                state[key] = torch.zeros_like(piece.flat, requires_grad=False)
            piece.of(state[key]).copy_(piece.cut(value))
        else:
            state[key] = value.clone() if isinstance(value, Tensor) else value


def _keys(partitions: Partitions) -> dict[str, bool]:
    """The optimizer's quantities, the same on all ranks, and whether they have a value per element."""
    states = partitions.zero.optimizer.state
    own = {
        key: isinstance(value, Tensor) and value.shape == flat.shape
        for flat in partitions.flats
        for key, value in states.get(flat, {}).items()
    }
    if distributed.get_world_size() == 1:
        return own
    all_ranks: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(all_ranks, own)
    return dict(sorted({key: sized for keys in all_ranks for key, sized in keys.items()}.items()))


def _scalar(partitions: Partitions, name: str, key: str) -> Any:
    """A number that the optimizer keeps for each of its parameters, such as Adam's `step`: the same for all."""
    states = partitions.zero.optimizer.state
    flat = partitions.pieces[name].flat
    values = [states[f][key] for f in ([flat] if flat is not None else partitions.flats) if key in states.get(f, {})]
    value = values[0] if values else None
    return value.detach().cpu().clone() if isinstance(value, Tensor) else value


def _frozen(module: nn.Module, partitions: Partitions) -> dict[str, Tensor]:
    """Frozen weights where ZeRO has cut them up, too, or each rank writes a share; they have no fp32 copy."""
    rank, parts, sharded = distributed.get_rank(), partitions.states.sharded, partitions.sharded_weights
    result = {}
    for name, parameter in module.named_parameters() if sharded or parts else ():
        if parameter.requires_grad:
            continue
        with _gathered([parameter], sharded):
            if parts:
                result[name] = share(parameter.detach(), rank, distributed.get_world_size(), copy=sharded)
            elif rank == 0:
                result[name] = parameter.detach().cpu().clone()
    return result


def _gathered(parameters: list[Any], sharded: bool, writing: bool = False) -> Any:
    """Within it, parameters that are cut up are whole; `writing` lets rank 0's values become those of all."""
    if not sharded:
        return nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters(parameters, modifier_rank=0 if writing else None)


def _buffers(module: nn.Module) -> dict[str, Tensor]:
    kept = module.state_dict().keys()
    return {name: buffer for name, buffer in module.named_buffers() if name in kept}
