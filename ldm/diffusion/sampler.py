"""Drawing samples: DDIM and diffusers' solvers behind one call, on a network's own path and prediction."""

from collections.abc import Callable
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.objective import Network
from ldm.diffusion.path import DDPMPath
from ldm.diffusion.prediction import Prediction
from ldm.errors import Fault

Scheduler = Literal["ddim", "euler", "dpmpp"]
PREDICTION_TYPES: dict[Prediction, str] = {"eps": "epsilon", "v": "v_prediction", "x0": "sample"}


@torch.no_grad()
def sample(
    network: Network,
    path: DDPMPath,
    prediction: Prediction,
    cond: Conditioning,
    uncond: Conditioning | None,
    noise: Tensor,
    *,
    steps: int = 50,
    guidance: float = 1.0,
    eta: float = 0.0,
    scheduler: Scheduler = "ddim",
    generator: torch.Generator | list[torch.Generator] | None = None,
    before: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Samples (b, c, h, w) that start from noise (b, c, h, w); they follow from noise and generator alone.

    guidance   scale of classifier-free guidance (Ho & Salimans 2022, arXiv 2207.12598), 1 is none; it leads away from
               `uncond`, what the network is told for no caption, and is off where that is None
    eta        of "ddim" alone: 0 deterministic, 1 as random as DDPM (Song et al. 2021, arXiv 2010.02502, eq. 16)
    scheduler  "ddim", "euler" (Karras et al. 2022, arXiv 2206.00364) or "dpmpp" (DPM-Solver++ 2M, Lu et al. 2022, arXiv
               2211.01095)
    generator  draws the noise that `eta` adds: one for the batch, or one for each example
    before     takes x_t and its timestep, a number, ahead of each step and gives the x_t that it starts from

    Raises `Fault` CFG03 for an unknown scheduler, for eta with one that adds no noise and for an impossible `steps`.
    """
    if eta and scheduler != "ddim":
        raise Fault("CFG03", f"eta is {eta} with the scheduler {scheduler}", why="only ddim adds noise", fix="eta=0")
    solver = solver_for(path, prediction, scheduler, steps)
    predict = guided(network, cond, uncond, guidance)
    extra: dict[str, Any] = {"eta": eta, "generator": generator} if scheduler == "ddim" else {}
    x = noise.float() * solver.init_noise_sigma
    for t in solver.timesteps:
        x = x if before is None else before(x, t)
        x_t = solver.scale_model_input(x, t).to(noise.dtype)
        output = predict(x_t, t.to(noise.device, torch.int64).expand(len(x_t)))
        x = solver.step(output.float(), t, x, **extra).prev_sample
    return x.to(noise.dtype)


def guided(
    network: Network, cond: Conditioning, uncond: Conditioning | None, guidance: float
) -> Callable[[Tensor, Tensor], Tensor]:
    """(x_t, t) -> output, moved away from the unconditional one by `guidance`; one call of the network gives both."""
    if uncond is None or guidance == 1.0:
        return lambda x_t, t: network(x_t, t, cond)
    both = uncond.join(cond)

    def predict(x_t: Tensor, t: Tensor) -> Tensor:
        without, told = network(torch.cat([x_t, x_t]), torch.cat([t, t]), both).float().chunk(2)
        return without + guidance * (told - without)

    return predict


def solver_for(path: DDPMPath, prediction: Prediction, scheduler: Scheduler, steps: int) -> Any:
    """A solver with the interface of diffusers' schedulers for a path and prediction, set to a number of steps."""
    if not 1 <= steps <= path.timesteps:
        raise Fault("CFG03", f"{steps} sampling steps were asked for", why=f"there can be 1 to {path.timesteps}")
    kind = solver_class(scheduler)
    if scheduler == "ddim":
        return kind(path, prediction, torch.tensor(ddim_timesteps(path, steps)))
    solver = kind(
        num_train_timesteps=path.timesteps,
        trained_betas=path.betas.tolist(),
        prediction_type=PREDICTION_TYPES[prediction],
        # Already so, and once more changes nothing; but it keeps the solvers that divide by alpha off infinity.
        rescale_betas_zero_snr=path.zero_terminal_snr,
    )
    solver.set_timesteps(timesteps=trailing(path.timesteps, steps))
    return solver


def ddim_timesteps(path: DDPMPath, steps: int) -> list[int]:
    """Those that Stable Diffusion's DDIM visits, evenly from 1 on by a whole number, unless they begin far too low.

    501 of 1000 would begin in the middle, with noise that the network knows to be a picture's. Then, and on a path
    without terminal signal, they begin at the last one.
    """
    stride = path.timesteps // steps
    offset = int(steps < path.timesteps)  # all of them end at 0
    missed = path.timesteps - (stride * (steps - 1) + offset)
    if path.zero_terminal_snr or missed > max(2 * stride, path.timesteps // 10):
        return trailing(path.timesteps, steps)
    return [stride * place + offset for place in reversed(range(steps))]


def trailing(timesteps: int, steps: int) -> list[int]:
    """`steps` of 0 to `timesteps` - 1, evenly down from the last one (Lin et al. 2023, arXiv 2305.08891, sec. 3.3).

    diffusers adds up the distance between them, and so visits timestep -1 where the sum falls short (201, 998 of 1000).
    """
    return [round(timesteps * left / steps) - 1 for left in range(steps, 0, -1)]


def solver_class(scheduler: Scheduler) -> Callable[..., Any]:
    """The class that a scheduler's name stands for, imported late: diffusers is heavy, and not every run samples."""
    import diffusers

    from ldm.diffusion.ddim import DDIM

    known: dict[str, Callable[..., Any]] = {
        "ddim": DDIM,
        "euler": diffusers.EulerDiscreteScheduler,
        "dpmpp": diffusers.DPMSolverMultistepScheduler,
    }
    if scheduler not in known:
        raise Fault("CFG03", f"there is no scheduler {scheduler!r}", why=f"it can be {', '.join(get_args(Scheduler))}")
    return known[scheduler]
