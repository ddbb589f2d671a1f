"""Optimizer steps within the backward pass: a parameter is stepped when its gradient is whole, which is then freed.

So at no time there are gradients of more than a layer or two. Every gradient has to be that of a whole step, on one
device and unscaled; and the optimizer has to look at one tensor at a time. Lv et al. 2023, arXiv 2306.09782.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from ldm.modules.rounding import PER_TENSOR
from ldm.training.split_weights import SplitWeights

TINY = 1e-6


def looks_at_one_tensor(kind: type) -> bool:
    """Whether an optimizer's class is known to step each parameter without a look at any other."""
    return bool(getattr(kind, "per_tensor", kind.__module__.startswith(PER_TENSOR)))


class StepsInBackward:
    """Steps the parameters of `optimizer` while a backward pass goes on, between `attach` and `detach`.

    step      steps the optimizer, whose groups then hold a single parameter, the one of this number
    weights   lower halves of weights, of which gradients are clipped in fp32
    limit     norm to which gradients are clipped, or with `by_value` the size of each number; None: not at all

    The norm over all gradients is known only when the pass is over, and all is stepped. So the gradient g_p of a
    parameter is multiplied by

        min(1, limit / (N + 1e-6), limit / (|g_p| + 1e-6))

    where N is the norm over all gradients in the step before (`previous`; the first step does without). The last term
    never cuts what clipping by the norm of this step would leave, and bounds what comes as a surprise. A gradient with
    a number that is not finite counts as zero; the norm shows it.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        step: Callable[[int], object],
        weights: SplitWeights | None = None,
        limit: float | None = None,
        by_value: bool = False,
    ) -> None:
        self.optimizer = optimizer
        self.previous: float | None = None
        self._step = step
        self._weights = SplitWeights() if weights is None else weights
        self._limit, self._by_value = limit, by_value
        self._norms: list[Tensor] = []
        self._hooks: list[RemovableHandle] = []

    def attach(self) -> None:
        """From now on backward passes step."""
        places = [(i, one) for i, group in enumerate(self.optimizer.param_groups) for one in group["params"]]
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._take, number, group))
            for number, (group, parameter) in enumerate(places)
        ]

    def detach(self) -> None:
        """Backward passes leave gradients again."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def end_of_pass(self) -> Tensor:
        """The norm over all gradients of the pass, before clipping: a scalar."""
        norms, self._norms = self._norms, []
        return torch.linalg.vector_norm(torch.stack(norms)) if norms else torch.zeros(())

    @torch.no_grad()
    def _take(self, number: int, group: int, parameter: Tensor) -> None:
        assert isinstance(parameter, nn.Parameter) and parameter.grad is not None
        norm = torch.linalg.vector_norm(parameter.grad, dtype=torch.float32)
        self._norms.append(norm)
        parameter.grad.masked_fill_(norm.isfinite().logical_not(), 0.0)
        if self._limit is not None:
            self._weights.before_step(parameter, self._clipping(self._limit, norm))
        with self._alone(group, parameter):
            self._step(number)
        parameter.grad = None

    def _clipping(self, limit: float, norm: Tensor) -> Callable[[Tensor], object]:
        if self._by_value:
            return lambda gradient: gradient.clamp_(-limit, limit)
        most = 1.0 if self.previous is None else min(1.0, limit / (self.previous + TINY))
        factor = (limit / (norm + TINY)).clamp(max=most).nan_to_num()
        return lambda gradient: gradient.mul_(factor)

    @contextmanager
    def _alone(self, group: int, parameter: nn.Parameter) -> Iterator[None]:
        """Within it the parameter is the optimizer's only one."""
        groups = self.optimizer.param_groups
        everything = [one["params"] for one in groups]
        try:
            for index, one in enumerate(groups):
                one["params"] = [parameter] if index == group else []
            yield
        finally:
            for one, parameters in zip(groups, everything, strict=True):
                one["params"] = parameters
