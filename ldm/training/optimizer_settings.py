"""Optimizers over a resume: what the config says holds, what an optimizer found out by itself stays as stored."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ldm.errors import Fault

Settings = dict[str, Any]
"""`optimizer`: its import path; `groups`: what the config gives each group (learning rate, betas, ...); `sizes`: how
many parameters each group holds; `names`: of those parameters, empty where they have none."""

KERNELS = ("fused", "foreach", "capturable")
"""Which kernels step an optimizer is a matter of this start, not of what was stored."""

PLAIN = (bool, int, float, str, tuple, list)


def settings_of(optimizer: Optimizer, names: Mapping[int, str]) -> Settings:
    """The settings of a freshly built optimizer; the learning rate is that before any schedule.

    names  of parameters by their `id`
    """
    groups = [
        {name: value for name, value in group.items() if _is_setting(name, value)} for group in _groups(optimizer)
    ]
    for group, own in zip(groups, _groups(optimizer), strict=True):
        group["lr"] = float(own.get("initial_lr", own["lr"]))
    return {
        "optimizer": f"{type(optimizer).__module__}.{type(optimizer).__qualname__}",
        "groups": groups,
        "sizes": [len(group["params"]) for group in _groups(optimizer)],
        "names": [[names.get(id(weight), "") for weight in group["params"]] for group in _groups(optimizer)],
    }


def keep_kernels(optimizer: Optimizer) -> None:
    """Let loading a state leave `KERNELS` as they are; where the state's tensors have to lie follows from them."""

    def keep(optimizer: Optimizer, stored: dict[str, Any]) -> dict[str, Any]:
        pairs = zip(stored["param_groups"], _groups(optimizer), strict=False)  # another number is refused after this
        groups = [group | {name: own[name] for name in KERNELS if name in own} for group, own in pairs]
        return stored | {"param_groups": [*groups, *stored["param_groups"][len(groups) :]]}

    optimizer.register_load_state_dict_pre_hook(keep)


def without_gaps(weights: Iterable[Tensor]) -> bool:
    """Whether weights of any shape fill their memory, as a part of a larger tensor need not.

    Fused kernels go through memory from end to end; on the CPU they do not look whether that is a tensor's.
    """
    return all(one.is_contiguous() or torch.empty_like(one, device="meta").stride() == one.stride() for one in weights)


def require_same_kind(stored: Sequence[Settings], now: Sequence[Settings]) -> None:
    """Raise `Fault` RES05 where a stored optimizer's state means nothing to the one that the config names."""
    for before, after in zip(stored, now, strict=False):
        if before["optimizer"] != after["optimizer"]:
            raise _another(f"optimizer: {before['optimizer']} -> {after['optimizer']}")
        if before["sizes"] != after["sizes"]:
            raise _another(f"trained tensors: {before['sizes']} -> {after['sizes']}")
        if moved := _moved(before.get("names", []), after["names"]):
            raise _another(f"trained tensors: {len(moved)} are in another group or place, first {moved[0]}")


def apply_changes(optimizers: Iterable[Optimizer], stored: Sequence[Settings], now: Sequence[Settings]) -> None:
    """Give restored optimizers what the config says otherwise than at the last start, but for the learning rate.

    Restoring brings back all settings of a group; and some optimizers keep state of their own beside them, which must
    stay. Rates are set by step, and not here.
    """
    for optimizer, before, after in zip(optimizers, stored, now, strict=True):
        for group, old, new in zip(_groups(optimizer), before["groups"], after["groups"], strict=True):
            group.update({name: value for name, value in new.items() if name != "lr" and old.get(name) != value})


def _moved(before: Sequence[Sequence[str]], after: Sequence[Sequence[str]]) -> list[str]:
    """Names in another place than before, where they are the same in all: states are kept by place.

    Where they are others altogether, libraries may have renamed what is still the same.
    """
    then, now = ([name for group in groups for name in group] for groups in (before, after))
    same = len(set(now)) == len(now) and set(then) == set(now)
    return [name for name, other in zip(now, then, strict=True) if name != other] if same else []


def _groups(optimizer: Optimizer) -> list[dict[str, Any]]:
    return optimizer.param_groups


def _is_setting(name: str, value: Any) -> bool:
    return name not in ("params", "initial_lr") and (value is None or isinstance(value, PLAIN))


def _another(change: str) -> Fault:
    return Fault(
        "RES05",
        "the optimizer's stored state does not fit this configuration",
        where="model.params.optimizer_config, model.params",
        why=change,
        fix="the setting of the run's configs/resolved.yaml; or a new run from its weights: "
        "model.params.ckpt_path=FILE",
    )
