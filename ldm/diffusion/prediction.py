"""What a network's output means: the target that it is trained on, and the x_0 that it stands for.

Every prediction is a pair (a, b) of `output = a x_0 + b noise`. With x_t = alpha x_0 + sigma noise that is solved by

    x_0 = (sigma output - b x_t) / D,    D = a sigma - b alpha,

so that no path and no sampler needs to know one by its name.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from ldm.diffusion.path import column, rounded_to_one

Prediction = Literal["eps", "v", "x0", "flow", "edm"]
Factor = Tensor | float

PAIRS: Mapping[Prediction, Callable[[Tensor, Tensor], tuple[Factor, Factor]]] = {
    "eps": lambda alpha, sigma: (0.0, 1.0),
    "v": lambda alpha, sigma: (-sigma, alpha),
    "x0": lambda alpha, sigma: (1.0, 0.0),
    "flow": lambda alpha, sigma: (-1.0, 1.0),
    "edm": lambda alpha, sigma: (sigma, -alpha),
}
"""(a, b) at alpha and sigma (b,): the noise (Ho et al. 2020, arXiv 2006.11239), the velocity on a circle (Salimans & Ho
2022, arXiv 2202.00512, app. D), the clean input, the velocity on a line (Liu et al. 2022, arXiv 2209.03003), and F of
EDM (Karras et al. 2022, arXiv 2206.00364, eq. 7), which where alpha^2 + sigma^2 = 1 is -v."""


def pair(prediction: Prediction, alpha: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
    """a and b (b,) of a prediction at alpha and sigma (b,). Raises ValueError for a prediction that is not known."""
    a, b = _pair(prediction, alpha, sigma)
    return (
        a if isinstance(a, Tensor) else torch.full_like(alpha, a),
        b if isinstance(b, Tensor) else torch.full_like(alpha, b),
    )


def _pair(prediction: Prediction, alpha: Tensor, sigma: Tensor) -> tuple[Factor, Factor]:
    if prediction not in PAIRS:
        raise ValueError(f"there is no prediction {prediction!r}: it can be {', '.join(PAIRS)}")
    return PAIRS[prediction](alpha, sigma)


def determinant(prediction: Prediction, alpha: Tensor, sigma: Tensor) -> Tensor:
    """D = a sigma - b alpha (b,): where it is 0, x_t and the output are the same thing, and x_0 is not in them."""
    a, b = pair(prediction, alpha, sigma)
    return rounded_to_one(a * sigma - b * alpha)


def target(prediction: Prediction, x0: Tensor, noise: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """What the network should answer: (b, ...) like x0 and noise, at alpha and sigma (b,)."""
    a, b = _pair(prediction, alpha, sigma)
    of_x0, of_noise = _times(a, x0), _times(b, noise)
    if of_x0 is None or of_noise is None:
        return noise if of_x0 is None else x0
    return of_x0 + of_noise


def _times(factor: Factor, whole: Tensor) -> Tensor | None:
    """factor (b,), or a number of the table, times (b, ...); None for nothing, for which no device has to work."""
    if isinstance(factor, Tensor):
        return column(factor, whole) * whole
    return None if factor == 0 else whole if factor == 1 else whole * factor


def x0_from(prediction: Prediction, output: Tensor, x_t: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """The x_0 (b, ...) that an output (b, ...) stands for, given x_t (b, ...) at alpha and sigma (b,): undoes `target`.

    Infinite or no number where D is 0, such as for eps where alpha is 0. Its gradient is not to be used.
    """
    a, b = (column(value, x_t) for value in pair(prediction, alpha, sigma))
    solved = (column(sigma, x_t) * output - b * x_t) / column(determinant(prediction, alpha, sigma), x_t)
    return torch.where(b == 0, output / a, solved)  # an output without noise in it needs no x_t
