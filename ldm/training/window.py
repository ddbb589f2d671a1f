"""An accumulation window: means over all of its micro-batches and ranks, and steps of two optimizers by hand."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Micro:
    """What a micro-batch leaves for the end of its window: pictures, reconstructions, and logged terms."""

    real: Tensor
    made: Tensor
    log: dict[str, Tensor]


def mean_of(logs: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The means of equally named scalars."""
    if len(logs) == 1:
        return dict(logs[0])
    return {name: torch.stack([log[name] for log in logs]).mean() for name in logs[0]}


def over_ranks(log: Mapping[str, Tensor], average: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """Numbers averaged over ranks, with one call of `average` for all of them. Collective."""
    averaged = average(torch.stack([value.detach().float() for value in log.values()]))
    return dict(zip(log, averaged.unbind(), strict=True))


@contextmanager
def still(part: nn.Module) -> Iterator[None]:
    """None of the part's parameters asks for a gradient; afterwards those do that did."""
    asking = [parameter for parameter in part.parameters() if parameter.requires_grad]
    try:
        part.requires_grad_(False)
        yield
    finally:
        for parameter in asking:
            parameter.requires_grad_(True)


def advance(schedules: Any) -> None:
    """Move every schedule by a step, that of an optimizer which has not begun yet included."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Detected call of `lr_scheduler.step\\(\\)` before")
        for schedule in schedules or ():
            schedule.step()
