"""The objective in CompVis' spelling, as model configs have written it since 2022."""

from typing import Literal

from ldm.diffusion.loss import Absolute, ElementLoss, Huber, Squared
from ldm.diffusion.objective import Objective
from ldm.diffusion.path import BetaSchedule, DDPMPath
from ldm.diffusion.prediction import Prediction

LossType = Literal["l1", "l2", "huber"]
LOSSES: dict[LossType, ElementLoss] = {"l1": Absolute(), "l2": Squared(), "huber": Huber()}


def compvis_objective(
    timesteps: int = 1000,
    beta_schedule: BetaSchedule = "linear",
    linear_start: float = 1e-4,
    linear_end: float = 2e-2,
    cosine_s: float = 8e-3,
    parameterization: Prediction = "eps",
    loss_type: LossType = "l2",
) -> Objective:
    """The unweighted objective that these parameters of `ldm.models.diffusion.ddpm.DDPM` describe."""
    path = DDPMPath(timesteps, beta_schedule, linear_start, linear_end, cosine_s)
    return Objective(path, parameterization, loss=LOSSES[loss_type])
