"""Drawing samples: our solvers and diffusers' behind one call, on a network's own path and prediction."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.objective import Network
from ldm.diffusion.path import Path, trailing
from ldm.diffusion.prediction import Prediction
from ldm.diffusion.prediction_names import LIBRARY_NAMES
from ldm.diffusion.sampling.guidance import UNGUIDED, Guidance, guided
from ldm.errors import Fault
from ldm.scheduler_names import Scheduler

PREDICTION_TYPES: Mapping[Prediction, str] = {name: LIBRARY_NAMES[name] for name in ("eps", "v", "x0")}
"""Those that diffusers' solvers know on the paths that they know."""


@torch.no_grad()
def sample(
    network: Network,
    path: Path,
    prediction: Prediction,
    cond: Conditioning,
    uncond: Conditioning | None,
    noise: Tensor,
    *,
    steps: int = 50,
    guidance: Guidance = UNGUIDED,
    eta: float = 0.0,
    scheduler: Scheduler = "ddim",
    generator: torch.Generator | list[torch.Generator] | None = None,
    before: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Samples (b, c, h, w) that start from noise (b, c, h, w); they follow from noise and generator alone.

    guidance   leads away from `uncond`, the conditioning without a caption, and is off where that is None
    eta        of "ddim" alone: 0 deterministic, 1 as random as DDPM (Song et al. 2021, arXiv 2010.02502, eq. 16)
    scheduler  "ddim", "euler" (Karras et al. 2022, arXiv 2206.00364) or "dpmpp" (DPM-Solver++ 2M, Lu et al. 2022, arXiv
               2211.01095)
    generator  draws the noise that `eta` adds: one for the batch, or one for each example
    before     takes x_t and its t, a number, ahead of each step and gives the x_t that it starts from

    Raises `Fault` CFG03 for an unknown scheduler, for eta with one that adds no noise and for an impossible `steps`.
    """
    if eta and scheduler != "ddim":
        raise Fault("CFG03", f"eta is {eta} with the scheduler {scheduler}", why="only ddim adds noise", fix="eta=0")
    solver = solver_for(path, prediction, scheduler, steps)
    predict = guided(network, cond, uncond, guidance, path, prediction)
    extra: dict[str, Any] = {"eta": eta, "generator": generator} if scheduler == "ddim" else {}
    x = noise.float() * solver.init_noise_sigma
    for t in solver.timesteps:
        x = x if before is None else before(x, t)
        x_t = solver.scale_model_input(x, t).to(noise.dtype)
        level = t.to(noise.device, torch.int64 if path.discrete else torch.float32).expand(len(x_t))
        x = solver.step(predict(x_t, level).float(), t, x, **extra).prev_sample
    return x.to(noise.dtype)


def solver_for(path: Path, prediction: Prediction, scheduler: Scheduler, steps: int) -> Any:
    """A solver with the interface of diffusers' schedulers for a path and prediction, set to a number of steps."""
    if not 1 <= steps <= path.timesteps:
        raise Fault("CFG03", f"{steps} sampling steps were asked for", why=f"there can be 1 to {path.timesteps}")
    kind, settings = solver_class(scheduler), path.library_settings()
    if kind.library is None or settings is None or prediction not in PREDICTION_TYPES:
        return kind.own(path, prediction, path.grid(steps))
    solver = kind.library(**settings, prediction_type=PREDICTION_TYPES[prediction])
    solver.set_timesteps(timesteps=trailing(path.timesteps, steps))
    return solver


class SolverClass(NamedTuple):
    """Our own, for any path and prediction, and diffusers' for those that it knows."""

    own: Callable[..., Any]
    library: Callable[..., Any] | None = None


def solver_class(scheduler: Scheduler) -> SolverClass:
    """The class that a scheduler's name stands for, imported late: diffusers is heavy, and not every run samples."""
    import diffusers

    from ldm.diffusion.sampling.ddim import DDIM, Euler
    from ldm.diffusion.sampling.dpm_solver import DPMSolver

    known = {
        "ddim": SolverClass(DDIM),
        "euler": SolverClass(Euler, diffusers.EulerDiscreteScheduler),
        "dpmpp": SolverClass(DPMSolver, diffusers.DPMSolverMultistepScheduler),
    }
    if scheduler not in known:
        raise Fault("CFG03", f"there is no scheduler {scheduler!r}", why=f"it can be {', '.join(get_args(Scheduler))}")
    return known[scheduler]
