"""The path from data to noise, `x_t = alpha x_0 + sigma noise`: how much of each is left at every noise level."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from ldm.diffusion.number_limits import FROM_ONE, FROM_ZERO, SHARE, require_limits

BetaSchedule = Literal["linear", "cosine", "sqrt_linear", "sqrt"]
ROUNDING = 2.0**-22
SNR_LIMIT = 1e8
"""The SNR is held within [1 / SNR_LIMIT, SNR_LIMIT] where its limits 0 and infinity would give no number."""


class Path(Protocol):
    """What objective and sampling ask of a path: `DDPMPath`, and beside this module `RectifiedFlow` and `EDMPath`.

    alpha and sigma are those of what the network is shown, x_t = alpha x_0 + sigma noise, for x_0 of unit variance.

    A noise level is a `t`: int64 where there are only `timesteps` of them, else float32. Settings name levels by steps,
    0 (nearly clean) to `timesteps` - 1 (nearly or wholly noise), on every path.

    timesteps  the number of these steps
    discrete   whether there is no level between two steps
    """

    @property
    def timesteps(self) -> int: ...

    @property
    def discrete(self) -> bool: ...

    def between(self, u: Tensor, low: int | Tensor, high: int | Tensor) -> Tensor:
        """t (b,) of the steps `low` up to, not including, `high`, all alike, at quantiles u (b,) float64 in [0, 1)."""
        ...

    def log_snr(self, t: Tensor) -> Tensor:
        """ln(alpha^2 / sigma^2) of t (b,) on the CPU: (b,) float64 on the CPU, which may be infinite."""
        ...

    def at_log_snr(self, log_snr: Tensor) -> Tensor:
        """The t (b,) nearest to log_snr (b,) float64, both on the CPU; infinite ones are the ends."""
        ...

    def coefficients(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """alpha and sigma of t (b,): (b,) each, float32."""
        ...

    def clock(self, t: Tensor) -> Tensor:
        """The network's time input for t (b,): (b,) int64 or float32, in no lower precision."""
        ...

    def grid(self, steps: int) -> Tensor:
        """t (steps + 1,) that sampling walks through: the noisiest first, at the end what counts as clean."""
        ...

    def library_settings(self) -> Mapping[str, Any] | None:
        """Settings with which diffusers' Euler and DPM-Solver++ know this path; None where they do not."""
        ...

    def scheduler_settings(self) -> Mapping[str, Any]:
        """The path in the words of diffusers' `scheduler_config.json`, without what every Stable Diffusion has."""
        ...


def levels(path: Path) -> Tensor:
    """t (timesteps,) of all named steps, on the CPU."""
    low = torch.arange(path.timesteps, device="cpu")
    return path.between(torch.zeros(path.timesteps, dtype=torch.float64, device="cpu"), low, low + 1)


class DDPMPath(nn.Module):
    """The variance-preserving path of DDPM (Ho et al. 2020, arXiv 2006.11239): alpha^2 + sigma^2 = 1, in discrete time.

    timesteps          t runs from 0 (nearly clean) to timesteps - 1 (nearly or wholly noise)
    beta_schedule      in CompVis' words: "linear" is linear in sqrt(beta) (diffusers: scaled_linear), "sqrt_linear" is
                       linear in beta (diffusers: linear), "sqrt" is the root of a line, "cosine" is Nichol & Dhariwal's
    linear_start       first beta, or with "sqrt" its square; not used by "cosine"
    linear_end         last beta, likewise
    cosine_s           offset of "cosine"
    zero_terminal_snr  no signal at all is left at the last timestep; needs a prediction of v or x0

    The tables `betas`, `alphas_cumprod`, `alpha` and `sigma`, each (timesteps,), are float32 and stay so.
    """

    limits = {"timesteps": FROM_ONE, "linear_start": SHARE, "linear_end": SHARE, "cosine_s": FROM_ZERO}
    discrete = True
    betas: Tensor
    alphas_cumprod: Tensor
    alpha: Tensor
    sigma: Tensor

    def __init__(
        self,
        timesteps: int = 1000,
        beta_schedule: BetaSchedule = "linear",
        linear_start: float = 1e-4,
        linear_end: float = 2e-2,
        cosine_s: float = 8e-3,
        zero_terminal_snr: bool = False,
    ) -> None:
        super().__init__()
        numbers = {"linear_start": linear_start, "linear_end": linear_end, "cosine_s": cosine_s}
        require_limits("DDPMPath", self.limits, {"timesteps": timesteps, **numbers})
        self.timesteps = timesteps
        self.zero_terminal_snr = zero_terminal_snr
        self.schedule = (beta_schedule, linear_start, linear_end)
        betas = beta_table(timesteps, beta_schedule, linear_start, linear_end, cosine_s)
        if zero_terminal_snr:
            betas = without_terminal_signal(betas)
        alphas_cumprod = (1 - betas).cumprod(0)
        tables = {"betas": betas, "alphas_cumprod": alphas_cumprod}
        tables |= {"alpha": alphas_cumprod.sqrt(), "sigma": (1 - alphas_cumprod).sqrt()}
        for name, table in tables.items():
            self.register_buffer(name, table.to(torch.float32), persistent=False)
        # For laws of the timestep, which draw on the CPU in float64: no buffer, so that it stays there.
        self._log_snr = alphas_cumprod.log() - (1 - alphas_cumprod).log()

    def between(self, u: Tensor, low: int | Tensor, high: int | Tensor) -> Tensor:
        # In float64, which cannot round up to `high`.
        return low + (u.double() * (high - low)).long()

    def log_snr(self, t: Tensor) -> Tensor:
        return self._log_snr[t]

    def at_log_snr(self, log_snr: Tensor) -> Tensor:
        ascending = self._log_snr.flip(0).clamp(-math.log(SNR_LIMIT), math.log(SNR_LIMIT))
        return self.timesteps - 1 - torch.searchsorted((ascending[1:] + ascending[:-1]) / 2, log_snr)

    def coefficients(self, t: Tensor) -> tuple[Tensor, Tensor]:
        return self.alpha[t], self.sigma[t]

    def clock(self, t: Tensor) -> Tensor:
        return t

    def grid(self, steps: int) -> Tensor:
        return torch.tensor([*ddim_timesteps(self.timesteps, steps, self.zero_terminal_snr), 0], device="cpu")

    def library_settings(self) -> Mapping[str, Any]:
        # Rescaled already, and once more changes nothing; but it keeps the solvers that divide by alpha off infinity.
        rescale = {"rescale_betas_zero_snr": self.zero_terminal_snr}
        return {"num_train_timesteps": self.timesteps, "trained_betas": self.betas.tolist(), **rescale}

    def scheduler_settings(self) -> Mapping[str, Any]:
        # diffusers' schedulers know two of CompVis' schedules; the others go as a table.
        settings: dict[str, Any] = {"num_train_timesteps": self.timesteps} if self.timesteps != 1000 else {}
        if self.zero_terminal_snr:
            settings["rescale_betas_zero_snr"] = True
        names = {"linear": "scaled_linear", "sqrt_linear": "linear"}
        schedule, start, end = self.schedule
        if schedule not in names:
            return settings | {"trained_betas": self.betas.tolist()}
        betas = {"beta_schedule": names[schedule], "beta_start": start, "beta_end": end}
        usual = {"beta_schedule": "scaled_linear", "beta_start": 0.00085, "beta_end": 0.012}
        return settings | {key: value for key, value in betas.items() if usual[key] != value}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "DDPMPath":
        # Follow the model to its device, but not to its half precision, which would round the signal-to-noise ratio.
        return super()._apply(lambda table: table.to(fn(table).device), recurse)


def column(values: Tensor, like: Tensor) -> Tensor:
    """Values (b,) as (b, 1, ..., 1), to be multiplied with a tensor of as many dimensions as `like`."""
    return values.reshape(-1, *[1] * (like.dim() - 1))


def corrupt(x0: Tensor, noise: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """x_t (b, ...) of x0 (b, ...) and noise (b, ...), at alpha and sigma (b,) (Ho et al. 2020, eq. 4)."""
    return column(alpha, x0) * x0 + column(sigma, x0) * noise


def rounded_to_one(values: Tensor) -> Tensor:
    """Values (b,) with those that differ from 1 or -1 by no more than float32's rounding set to it.

    alpha^2 + sigma^2 of a variance-preserving path and alpha + sigma of rectified flow are 1, and nothing is lost to a
    division by them.
    """
    return torch.where((values.abs() - 1).abs() < ROUNDING, values.sign(), values)


def ddim_timesteps(timesteps: int, steps: int, to_the_end: bool) -> list[int]:
    """Those that Stable Diffusion's DDIM visits, evenly from 1 on by a whole number, unless they begin far too low.

    501 of 1000 would begin in the middle, with noise that the network knows to be a picture's. Then, and `to_the_end`
    (on a path without terminal signal), they begin at the last one.
    """
    stride = timesteps // steps
    offset = int(steps < timesteps)  # all of them end at 0
    missed = timesteps - (stride * (steps - 1) + offset)
    if to_the_end or missed > max(2 * stride, timesteps // 10):
        return trailing(timesteps, steps)
    return [stride * place + offset for place in reversed(range(steps))]


def trailing(timesteps: int, steps: int) -> list[int]:
    """`steps` of 0 to `timesteps` - 1, evenly down from the last one (Lin et al. 2023, arXiv 2305.08891, sec. 3.3).

    diffusers adds up the distance between them, and so visits timestep -1 where the sum falls short (201, 998 of 1000).
    """
    return [round(timesteps * left / steps) - 1 for left in range(steps, 0, -1)]


def beta_table(timesteps: int, schedule: BetaSchedule, start: float, end: float, cosine_s: float) -> Tensor:
    """The betas of a schedule named as in CompVis: (timesteps,) float64, on the CPU whatever the default device is."""
    if schedule == "cosine":
        return cosine_betas(timesteps, cosine_s)
    if schedule == "linear":
        return line(math.sqrt(start), math.sqrt(end), timesteps) ** 2
    betas = line(start, end, timesteps)
    return betas.sqrt() if schedule == "sqrt" else betas


def line(start: float, end: float, steps: int) -> Tensor:
    """(steps,) float64 numbers from `start` to `end`, evenly spaced."""
    return torch.linspace(start, end, steps, dtype=torch.float64, device="cpu")


def cosine_betas(timesteps: int, s: float) -> Tensor:
    """Betas (timesteps,) of a squared-cosine alphas_cumprod, at most 0.999 (Nichol & Dhariwal, 2102.09672, eq. 17)."""
    angle = (line(0, 1, timesteps + 1) + s) / (1 + s) * (math.pi / 2)
    alphas_cumprod = angle.cos() ** 2
    return (1 - alphas_cumprod[1:] / alphas_cumprod[:-1]).clamp(0, 0.999)


def without_terminal_signal(betas: Tensor) -> Tensor:
    """Betas (n,) with a last alphas_cumprod of 0 and the first as it was (Lin et al. 2023, 2305.08891, alg. 1)."""
    alpha = (1 - betas).cumprod(0).sqrt()
    alpha = (alpha - alpha[-1]) * alpha[0] / (alpha[0] - alpha[-1])
    alphas_cumprod = alpha**2
    return 1 - torch.cat([alphas_cumprod[:1], alphas_cumprod[1:] / alphas_cumprod[:-1]])
