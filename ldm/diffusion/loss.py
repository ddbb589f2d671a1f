"""What an error costs at each element, and the mean of it for each example."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import mse_loss

from ldm.admission import configurable
from ldm.diffusion.number_limits import POSITIVE, Limited

ElementLoss = Callable[[Tensor, Tensor], Tensor]
"""(output, target), both (b, c, h, w) -> cost of every element (b, c, h, w)."""


@configurable
@dataclass(frozen=True)
class Squared:
    """error^2 (CompVis: l2)."""

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        return mse_loss(output, target, reduction="none")


@configurable
@dataclass(frozen=True)
class Absolute:
    """|error| (CompVis: l1)."""

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        return (output - target).abs()


@configurable
@dataclass(frozen=True)
class Huber(Limited):
    """error^2 up to |error| = delta, its tangent 2 delta |error| - delta^2 beyond: outliers pull with a bounded force.

    Twice Huber's own (1964), so that small errors cost what they cost with `Squared`.

    delta  the error at which the square ends, in units of the target
    """

    limits = {"delta": POSITIVE}
    delta: float = 0.1

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        error = (output - target).abs()
        near = error.clamp(max=self.delta)
        return near * (2 * error - near)


ExampleMean = Callable[[Tensor, Tensor | None], Tensor]
"""(elements (b, c, h, w), mask (b, 1, h, w) of weights in [0, 1] or None) -> mean of each example (b,) float32."""


@configurable
@dataclass(frozen=True)
class MaskedMean:
    """The mean over the masked area, and 0 where that is empty: an example counts the same however small its mask."""

    def __call__(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return elements.float().flatten(1).mean(1)
        weights = mask.float().expand_as(elements)
        return (elements.float() * weights).flatten(1).sum(1) / weights.flatten(1).sum(1).clamp_min(1e-6)


@configurable
@dataclass(frozen=True)
class WholeMean:
    """The mean over all pixels, where those outside of the mask cost nothing, as in sd-scripts' `--masked_loss`.

    A mask of a tenth of the picture makes its example count a tenth.
    """

    def __call__(self, elements: Tensor, mask: Tensor | None = None) -> Tensor:
        elements = elements.float()
        return (elements if mask is None else elements * mask.float()).flatten(1).mean(1)


squared = Squared()
masked_mean = MaskedMean()
