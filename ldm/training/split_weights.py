"""fp32 weights in two halves: bfloat16 in the model, to compute with, and beside it the 16 bits that it lacks.

The bfloat16 nearest to an fp32 number is the upper half of its bits, rounded; the distance between both, counted in the
last bit of the fp32 number, fits into 16 bits. So a master copy of the weights takes 2 bytes a number beside those of
the model, not 4, and nothing is lost. Gradients of a window of several micro-batches are summed likewise.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ldm.ema.model_weights import LocalParameters
from ldm.modules.rounding import step_in_fp32

HALF = 1 << 15
LOWER = " (lower half)"


def split(x: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest bfloat16 of each fp32 element, ties away from zero, and an int16 by which `joined` finds it again.

    Both have the shape of `x`. NaN stays NaN, though another one.
    """
    bits = x.view(torch.int32)
    high = (bits + HALF) >> 16
    low = (bits - (high << 16)).to(torch.int16)
    upper = high.to(torch.int16).view(torch.bfloat16)
    lost = x.isnan()
    return torch.where(lost, torch.nan, upper), low.masked_fill_(lost, 0)


def joined(high: Tensor, low: Tensor) -> Tensor:
    """The fp32 elements, to the bit, that `split` made these two of; in their shape."""
    return ((high.view(torch.int16).to(torch.int32) << 16) + low).view(torch.float32)


class SplitWeights:
    """The lower halves of a model's trained weights, and its gradients' sums while a window lasts; empty at first.

    Weights that it did not `take`, such as adapters', which stay in fp32, are stepped and clipped as they are.
    """

    def __init__(self) -> None:
        self._low: dict[nn.Parameter, Tensor] = {}
        self._sums: dict[nn.Parameter, tuple[Tensor, Tensor]] = {}
        self._clip: Callable[[Tensor], object] | None = None

    def __bool__(self) -> bool:
        return bool(self._low)

    def lower_halves(self) -> list[Tensor]:
        """Those of all weights that were taken, each int16 in the shape of its weight."""
        return list(self._low.values())

    def take(self, parameter: nn.Parameter) -> None:
        """Keep the lower half of a parameter; the upper one becomes its data."""
        parameter.data, self._low[parameter] = split(parameter.data.float())

    def lower_half(self, parameter: nn.Parameter) -> Tensor | None:
        """int16 in the shape of the parameter, where it lies; None for one that was not taken."""
        low = self._low.get(parameter)
        if low is not None and low.device != parameter.device:
            low = self._low[parameter] = low.to(parameter.device)
        return low

    def whole(self, module: nn.Module) -> dict[str, Tensor]:
        """The fp32 weights of `module` by name, each in its shape, on the CPU: what checkpoints hold."""
        named = ((name, parameter, self.lower_half(parameter)) for name, parameter in module.named_parameters())
        return {name: joined(weight.detach().cpu(), low.cpu()) for name, weight, low in named if low is not None}

    # Gradients

    def sum_gradients(self) -> Callable[[], None]:
        """From now on sum gradients in fp32 until `bring_gradients` is called; calling the result ends it."""
        hooks = [parameter.register_post_accumulate_grad_hook(self._add) for parameter in self._low]

        def end() -> None:
            for hook in hooks:
                hook.remove()

        return end

    def _add(self, parameter: Tensor) -> None:
        assert isinstance(parameter, nn.Parameter) and parameter.grad is not None
        total = parameter.grad.float()
        parameter.grad = None  # torch would add to it in bfloat16
        if parameter in self._sums:
            total += joined(*self._sums[parameter])
        self._sums[parameter] = split(total)

    def bring_gradients(self) -> None:
        """Let the parameters' gradients be the window's, for whoever looks at them before the step."""
        for parameter, (high, _) in self._sums.items():
            parameter.grad = high

    def gradient(self, parameter: nn.Parameter) -> Tensor:
        """In fp32 and the shape of the parameter, not yet clipped."""
        assert parameter.grad is not None
        return joined(*self._sums[parameter]) if parameter in self._sums else parameter.grad.float()

    @torch.no_grad()
    def clip(self, parameters: Iterable[nn.Parameter], limit: float, by_value: bool = False) -> None:
        """Let the next step clip gradients in fp32, to a norm over all `parameters` or each number to +-`limit`.

        As `torch.nn.utils.clip_grad_norm_` and `clip_grad_value_` do it, to the bit.
        """
        trained = [parameter for parameter in parameters if parameter.grad is not None]
        if by_value:
            self._clip = lambda gradient: gradient.clamp_(-limit, limit)
        elif trained:
            norms = [torch.linalg.vector_norm(self.gradient(parameter)) for parameter in trained]
            factor = (limit / (torch.linalg.vector_norm(torch.stack(norms)) + 1e-6)).clamp(max=1.0)
            self._clip = lambda gradient: gradient.mul_(factor)
        for parameter in trained:
            if parameter not in self._low and self._clip and parameter.grad is not None:
                self._clip(parameter.grad)

    def before_step(self, parameter: nn.Parameter, change: Callable[[Tensor], object]) -> None:
        """Let `change` write into the parameter's gradient, in fp32 where that is stepped, for the step that comes."""
        if parameter in self._low:
            self._clip = change
        elif parameter.grad is not None:
            change(parameter.grad)

    # Steps

    def step(self, optimizer: Optimizer) -> None:
        """A step of fp32 weights by fp32 gradients; what was summed and how to clip is forgotten afterwards."""
        try:
            step_in_fp32(optimizer, self._widen, self._narrow)
        finally:
            self._sums.clear()
            self._clip = None

    def _widen(self, parameter: nn.Parameter) -> tuple[Tensor, Tensor]:
        low = self.lower_half(parameter)
        weights = parameter.data.float() if low is None else joined(parameter.data, low)
        gradient = self.gradient(parameter)
        if self._clip is not None:
            self._clip(gradient)
        return weights, gradient

    def _narrow(self, parameter: nn.Parameter, weights: Tensor) -> None:
        high, low = split(weights)
        parameter.data.copy_(high)
        before = self.lower_half(parameter)
        self._low[parameter] = low if before is None else before.copy_(low)

    def ema_source(self, module: nn.Module) -> Any:
        """What an EMA averages: the fp32 weights of `module`; itself where it has no lower halves."""
        return SplitParameters(module, self) if self else module


class SplitParameters(LocalParameters):
    """Trained parameters of which some have lower halves (`ldm.ema.model_weights.InHalves`)."""

    def __init__(self, owner: nn.Module, weights: SplitWeights) -> None:
        super().__init__(owner)
        self._weights = weights

    def halves(self) -> dict[str, Tensor]:
        tensors: dict[str, Any] = self.tensors()
        lows = {name + LOWER: self._weights.lower_half(parameter) for name, parameter in tensors.items()}
        return tensors | {name: low for name, low in lows.items() if low is not None}

    def in_full(self, halves: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return _Joined(halves)


class _Joined(Mapping[str, Tensor]):
    """fp32 tensors, each made when it is asked for."""

    def __init__(self, halves: Mapping[str, Tensor]) -> None:
        self._halves = halves

    def __getitem__(self, name: str) -> Tensor:
        tensor, low = self._halves[name].detach(), self._halves.get(name + LOWER)
        return tensor if low is None else joined(tensor, low)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._halves if not name.endswith(LOWER))

    def __len__(self) -> int:
        return sum(1 for _ in self)
