"""Weights in bfloat16 that learn: each step is computed in fp32 and rounded at random, so that none is lost on average.

Rounding to nearest loses every update below half of a weight's last bit, 1/512 of it: at a usual learning rate nearly
all of them. Rounded up with a chance equal to the fraction cut off, the result is right in expectation (Gupta et al.
2015, arXiv 1502.02551), and moments stay in fp32.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

PORTION = 1 << 26  # elements that are fp32 at a time: a quarter of a GiB of weights, and as much of gradients
BITS_CUT = 16
PER_TENSOR = ("torch.optim", "bitsandbytes.optim")  # optimizers that look at one tensor at a time

Widen = Callable[[nn.Parameter], tuple[Tensor, Tensor]]
"""From a bfloat16 parameter with a gradient to both in fp32, as new tensors."""
Narrow = Callable[[nn.Parameter, Tensor], None]
"""Puts stepped fp32 weights into the bfloat16 parameter that they came from."""


def stochastic_bfloat16(x: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """One of the two bfloat16 neighbours of each fp32 element, in its shape, the nearer the likelier: the mean is x."""
    noise = torch.randint(1 << BITS_CUT, x.shape, dtype=torch.int32, device=x.device, generator=generator)
    bits = (x.view(torch.int32) + noise) & -(1 << BITS_CUT)
    return torch.where(x.isfinite(), bits.view(torch.float32), x).to(torch.bfloat16)


def rounded_step(optimizer: Optimizer, generator: torch.Generator | None = None) -> None:
    """`optimizer.step()` with bfloat16 parameters, and their gradients, in fp32 meanwhile (`step_in_fp32`)."""

    def widen(parameter: nn.Parameter) -> tuple[Tensor, Tensor]:
        assert parameter.grad is not None
        return parameter.data.float(), parameter.grad.float()

    def narrow(parameter: nn.Parameter, weights: Tensor) -> None:
        parameter.data.copy_(stochastic_bfloat16(weights, generator))

    step_in_fp32(optimizer, widen, narrow)


@torch.no_grad()
def step_in_fp32(optimizer: Optimizer, widen: Widen, narrow: Narrow) -> None:
    """`optimizer.step()` on what `widen` makes of bfloat16 parameters, which `narrow` gives back to them.

    Optimizers of torch and bitsandbytes, and those that say `per_tensor = True`, are stepped in portions of `PORTION`
    elements; others all at once, since they may keep numbers over all parameters, which each step moves.
    """
    groups = optimizer.param_groups
    everything = [group["params"] for group in groups]
    known = type(optimizer).__module__.startswith(PER_TENSOR)
    size = PORTION if getattr(optimizer, "per_tensor", known) else None
    try:
        for portion in _portions(everything, size):
            for group, parameters in zip(groups, portion, strict=True):
                group["params"] = parameters
            _step_portion(optimizer, [p for parameters in portion for p in parameters], widen, narrow)
    finally:
        for group, parameters in zip(groups, everything, strict=True):
            group["params"] = parameters


def keep_state_precise(optimizer: Optimizer) -> None:
    """Let loading a state leave fp32 moments as they are; torch would give them the dtype of their parameters."""
    halves: list[tuple[nn.Parameter, Tensor]] = []

    def widen(optimizer: Optimizer, state: object) -> None:
        for group in optimizer.param_groups:
            halves.extend((p, p.data) for p in group["params"] if p.dtype == torch.bfloat16)
        for parameter, half in halves:
            parameter.data = half.float()

    def narrow(optimizer: Optimizer) -> None:
        for parameter, half in halves:
            parameter.data = half
        halves.clear()

    optimizer.register_load_state_dict_pre_hook(widen)
    optimizer.register_load_state_dict_post_hook(narrow)


def _step_portion(optimizer: Optimizer, parameters: list[nn.Parameter], widen: Widen, narrow: Narrow) -> None:
    halves = [(p, p.data, p.grad) for p in parameters if p.grad is not None and p.dtype == torch.bfloat16]
    for parameter, _, _ in halves:
        _become(parameter, *widen(parameter))
    stepped: list[Tensor] = []
    try:
        optimizer.step()
        stepped = [parameter.data for parameter, _, _ in halves]
    finally:
        for parameter, half, gradient in halves:
            _become(parameter, half, gradient)
    for (parameter, _, _), weights in zip(halves, stepped, strict=True):
        narrow(parameter, weights)


def _become(parameter: nn.Parameter, data: Tensor, gradient: Tensor) -> None:
    parameter.grad = None  # of the former dtype, which it has to have
    parameter.data = data
    parameter.grad = gradient


def _portions(groups: list[list[nn.Parameter]], size: int | None) -> Iterator[list[list[nn.Parameter]]]:
    """The groups' parameters, in lists of lists of about `size` elements together."""
    if size is None:
        yield groups
        return
    portion: list[list[nn.Parameter]] = [[] for _ in groups]
    filled = 0
    for index, parameters in enumerate(groups):
        for parameter in parameters:
            portion[index].append(parameter)
            filled += parameter.numel()
            if filled >= size:
                yield portion
                portion, filled = [[] for _ in groups], 0
    if filled:
        yield portion
