"""Parameters of an objective, such as a learned weighting's: they train beside the networks and belong to none."""

from torch import nn

from ldm.diffusion.objective import Objective
from ldm.models.base import TrainedModel
from ldm.models.model_parts import ForwardUnit
from ldm.training.window import still


class LearnsObjective(TrainedModel):
    """The side of a diffusion model that trains what its objective has learned parts of.

    Rules know their parameters as `objective.weighting.*`. Checkpoints hold them; averages and exported weights do not,
    since nothing is sampled by them.

    objective         recipe of `ldm.diffusion.objective.Objective`: any path, weighting, timestep law and noise; what
                      it leaves out is as in CompVis' spelling, by the keys below, and what both say otherwise is
                      refused (CFG08)
    timesteps         how many noise levels there are
    beta_schedule     course of the noise over the levels, in CompVis' words (`ldm.diffusion.path.DDPMPath`)
    linear_start, linear_end  first and last beta of that course
    cosine_s          offset of the course `cosine`
    parameterization  what the network's output means
    loss_type         cost of an error: absolute, squared, or squared near 0 alone
    """

    objective: Objective
    heeds = frozenset({"loss_weight", "timesteps", "kind"})

    def beside_networks(self) -> dict[str, nn.Module]:
        return {"objective": self.objective}

    def forward_units(self) -> list[ForwardUnit]:
        """Of the objective its parts, which are called while it calls the network."""
        networks = [unit for unit in super().forward_units() if unit.module is not self.objective]
        learned = [part for part in self.objective.children() if any(p.requires_grad for p in part.parameters())]
        return [*networks, *(ForwardUnit(part, precise=True) for part in learned)]

    def _build_ema(self) -> None:
        """Of networks alone."""
        with still(self.objective):
            super()._build_ema()
