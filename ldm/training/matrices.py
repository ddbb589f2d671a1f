"""torch's optimizers for matrices, over convolutions too: each kernel is the matrix (out, in x height x width)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

Closure = Callable[[], float]


class Adafactor(torch.optim.Adafactor):
    """Shazeer & Stern 2018, arXiv 1804.04235, with the second moments of convolutions factored, too.

    torch's own factors the last two axes, which in a convolution are 3 x 3 or 1 x 1: the UNet of Stable Diffusion 1.x
    then has 1.8 GB of state, and here 6 MB. A step has the size `lr`, as AdamW's: the second number of `eps`, the least
    by which a step is multiplied for the size of the weights, is 1; at torch's 0.001 one goes by their size.

    params  given by the run
    lr  learning rate, given by the run
    beta2_decay  exponent by which the average of squares gets longer with the steps
    eps  added to squares, and least scale of a parameter; null: by type
    d  largest root mean square of an update
    weight_decay  share of a weight that a step at rate 1 takes off
    foreach  all tensors at a time: faster, more memory
    """

    per_tensor = True

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1.0),
        d: float = 1.0,
        weight_decay: float = 0.0,
        foreach: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay, foreach=foreach
        )

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        return _step(self, super().step, closure)


class Muon(torch.optim.Muon):
    """Jordan et al. 2024, kellerjordan.github.io/posts/muon: the momentum of a matrix is made orthogonal.

    Steps have the size of AdamW's (Liu et al. 2025, arXiv 2502.16982), so that its learning rate and decay stand.
    Parameters of one axis are refused, by a ValueError; `Joined` of `several_optimizers.py` gives them to another one.

    params  given by the run: matrices and convolutions alone
    lr  learning rate
    weight_decay  share of a weight that a step at rate 1 takes off
    momentum  of the gradient, 0 to below 1
    nesterov  look ahead by the momentum
    ns_steps  iterations of Newton and Schulz
    adjust_lr_fn  how the rate follows a matrix's shape: `original`, or `match_rms_adamw`
    """

    per_tensor = True

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.01,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_steps: int = 5,
        adjust_lr_fn: str = "match_rms_adamw",
    ) -> None:
        groups = list(params)
        with as_matrices(_members(groups)):
            super().__init__(
                groups,
                lr=lr,
                weight_decay=weight_decay,
                momentum=momentum,
                nesterov=nesterov,
                ns_steps=ns_steps,
                adjust_lr_fn=adjust_lr_fn,
            )

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:
        return _step(self, super().step, closure)


@contextmanager
def as_matrices(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Within it parameters of more than two axes, and their gradients, are matrices: (n, ...) is (n, product)."""
    wide = [(p, p.data, p.grad) for p in parameters if p.ndim > 2]
    for parameter, data, gradient in wide:
        _become(parameter, data.flatten(1), None if gradient is None else gradient.flatten(1))
    try:
        yield
    finally:
        for parameter, data, gradient in wide:
            if not data.is_contiguous():  # its matrix was a copy
                data.copy_(parameter.data.view(data.shape))
            _become(parameter, data, gradient)


def _step(optimizer: Optimizer, step: Callable[[], Any], closure: Closure | None) -> Any:
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    with as_matrices(_members(optimizer.param_groups)):
        step()
    return loss


def _members(groups: Iterable[Any]) -> list[nn.Parameter]:
    """The parameters of groups, or of a list without any."""
    given = [group["params"] if isinstance(group, Mapping) else [group] for group in groups]
    return [parameter for parameters in given for parameter in parameters]


def _become(parameter: nn.Parameter, data: Tensor, gradient: Tensor | None) -> None:
    parameter.grad = None  # of the former shape, which it has to have
    parameter.data = data
    parameter.grad = gradient
