"""What a network's output means, eps, v or x0: the target that it is trained on, and the x_0 that it stands for."""

from typing import Literal, assert_never

from torch import Tensor

from ldm.diffusion.path import column

Prediction = Literal["eps", "v", "x0"]


def target(prediction: Prediction, x0: Tensor, noise: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """What the network should answer: (b, ...) like x0 and noise, at alpha and sigma (b,).

    eps is the noise (Ho et al. 2020, arXiv 2006.11239); v is alpha noise - sigma x0 (Salimans & Ho 2022, arXiv
    2202.00512, app. D).
    """
    match prediction:
        case "eps":
            return noise
        case "v":
            return column(alpha, x0) * noise - column(sigma, x0) * x0
        case "x0":
            return x0
        case _:
            assert_never(prediction)


def x0_from(prediction: Prediction, output: Tensor, x_t: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """The x_0 (b, ...) that an output (b, ...) stands for, given x_t (b, ...) at alpha and sigma (b,): undoes `target`.

    Of eps it is (x_t - sigma eps) / alpha, which does not exist where alpha is 0. Of v it is alpha x_t - sigma v, since
    alpha^2 + sigma^2 = 1.
    """
    alpha, sigma = column(alpha, x_t), column(sigma, x_t)
    match prediction:
        case "eps":
            return (x_t - sigma * output) / alpha
        case "v":
            return alpha * x_t - sigma * output
        case "x0":
            return output
        case _:
            assert_never(prediction)
