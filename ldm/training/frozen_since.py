"""Checkpoints of runs that also trained what nothing depends on, which is frozen today: they go on without it."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

from ldm.training.groups import Group

log = logging.getLogger(__name__)


def leave_out_idle(checkpoint: dict[str, Any], model: nn.Module, groups: Callable[[], Sequence[Group]]) -> None:
    """Drop what a checkpoint's optimizer keeps of tensors that are `idle`, where it was saved as they still trained.

    Optimizers keep tensors by number, so that names are those of the groups of that time: `groups()` while the idle
    tensors train. All others keep their state, under the numbers of today. In place; logged if anything is left out.
    """
    idle = idle_of(model)
    settings, states = checkpoint.get("optimizer_settings") or [], checkpoint.get("optimizer_states") or []
    if not idle or len(settings) != 1 or len(states) != 1:
        return
    with training(list(idle.values())):
        then = [group.parameters for group in groups()]
    if settings[0]["sizes"] != [len(group) for group in then]:
        return
    left_out = {id(parameter) for parameter in idle.values()}
    kept = [[id(parameter) not in left_out for parameter in group] for group in then]
    checkpoint["optimizer_settings"] = [settings[0] | {"sizes": [sum(group) for group in kept]}]
    checkpoint["optimizer_states"] = [without(states[0], kept)]
    log.info(
        "note: %d tensors have no optimizer state any more, since nothing that is trained depends on them: %s",
        len(idle),
        ", ".join(sorted({name.rpartition(".")[0] for name in idle})),
    )


def idle_of(model: nn.Module) -> dict[str, nn.Parameter]:
    """Tensors that do not train because a part that does says they are idle: {name: parameter}."""
    unread: set[int] = set()
    for part in model.modules():
        if any(parameter.requires_grad for parameter in part.parameters()):
            idle: list[nn.Module] = getattr(part, "idle", list)()
            unread |= {id(parameter) for module in idle for parameter in module.parameters()}
    return {name: p for name, p in model.named_parameters() if id(p) in unread and not p.requires_grad}


@contextmanager
def training(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Within it frozen parameters count as trained."""
    try:
        for parameter in parameters:
            parameter.requires_grad_(True)
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(False)


def without(state: dict[str, Any], kept: Sequence[Sequence[bool]]) -> dict[str, Any]:
    """An optimizer's stored state of those tensors of each group that are kept, numbered anew from 0.

    Empty states, which ranks other than the first may bring, stay so.
    """
    if not state:
        return state
    renumbered: dict[int, int] = {}
    groups = []
    for group, keeps in zip(state["param_groups"], kept, strict=True):
        numbers = [number for number, keep in zip(group["params"], keeps, strict=True) if keep]
        first = len(renumbered)
        renumbered |= {number: first + place for place, number in enumerate(numbers)}
        groups.append(group | {"params": [renumbered[number] for number in numbers]})
    entries = {renumbered[number]: entry for number, entry in state["state"].items() if number in renumbered}
    return state | {"state": entries, "param_groups": groups}
