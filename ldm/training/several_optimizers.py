"""Several optimizers as one: each takes the groups that rules give to it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from ldm.ema.schedule_free import is_schedule_free
from ldm.util import Recipe, instantiate_from_config

KEY = "optimizer"
"""The setting of a group that names its optimizer."""


class Joined(Optimizer):
    """Optimizers side by side, for whoever steps, stores and schedules a single one.

    params      groups; those whose setting `optimizer` names one of `optimizers` are its own
    optimizers  {name: recipe of an optimizer}
    otherwise   the name of the one that takes all other groups

    The optimizers hold the very maps that `param_groups` lists, and share one `state`: a rate that is set, and what is
    loaded, reaches them all. Raises ValueError for a name that there is not, an optimizer without a group, a setting
    that a group's optimizer does not have, and schedule-free ones, which need to know when to average.

    lr  learning rate of all of them, given by the run
    """

    def __init__(self, params: Iterable[Any], optimizers: Mapping[str, Recipe], otherwise: str, lr: float) -> None:
        groups = _groups(params)
        for group in groups:
            group.setdefault(KEY, otherwise)
        self._require_names(groups, optimizers, otherwise)
        self._parts: dict[str, Optimizer] = {}
        for name, recipe in optimizers.items():
            own = [group for group in groups if group[KEY] == name]
            self._parts[name] = _part(name, recipe, own, lr)
        super().__init__(groups, {})
        known = (part.defaults for part in self._parts.values())
        self.defaults = {KEY: otherwise} | {key: value for defaults in known for key, value in defaults.items()}
        self._share()

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """A step of each."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for part in self._parts.values():
            part.step()
        return loss

    def load_state_dict(self, state_dict: Any) -> None:
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        for name, part in self._parts.items():
            part.param_groups = [group for group in self.param_groups if group[KEY] == name]
            part.state = self.state

    @staticmethod
    def _require_names(groups: list[dict[str, Any]], optimizers: Mapping[str, Recipe], otherwise: str) -> None:
        named = {str(group[KEY]) for group in groups}
        there = ", ".join(optimizers)
        for name in sorted({otherwise} | named):
            if name not in optimizers:
                raise ValueError(f"there is no optimizer {name!r}; there are {there}")
        if idle := [name for name in optimizers if name not in named]:
            raise ValueError(f"the optimizer {idle[0]} has nothing to do: no rule says {KEY}: {idle[0]}")


def _part(name: str, recipe: Recipe, groups: list[dict[str, Any]], lr: float) -> Optimizer:
    said = {key for group in groups for key in group} - {"params", "lr", KEY}
    part: Optimizer = instantiate_from_config(recipe, groups, lr=lr)
    if not isinstance(part, Optimizer) or is_schedule_free(part):
        raise ValueError(f"{recipe['target']} cannot be one of several optimizers")
    if unknown := sorted(said - part.defaults.keys()):
        raise ValueError(f"the optimizer {name} has no setting {unknown[0]}; it takes {', '.join(part.defaults)}")
    return part


def _groups(params: Iterable[Any]) -> list[dict[str, Any]]:
    given = list(params)
    return [dict(group) for group in given] if isinstance(given[0], Mapping) else [{"params": given}]
