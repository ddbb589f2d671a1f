"""CompVis' spelling of the objective."""

import pytest
import torch

from ldm.diffusion.compvis import LossType, compvis_objective
from ldm.diffusion.loss import Absolute, ElementLoss, Huber, Squared
from ldm.diffusion.path import DDPMPath


def test_the_schedule_of_stable_diffusion_is_spelled_as_in_its_config() -> None:
    objective = compvis_objective(timesteps=1000, linear_start=0.00085, linear_end=0.012)
    assert objective.prediction == "eps"
    assert objective.path.alphas_cumprod[-1].item() == pytest.approx(0.0046603, rel=1e-4)


def test_every_parameter_of_the_path_arrives() -> None:
    path = compvis_objective(20, "cosine", cosine_s=0.1).path
    assert torch.equal(path.betas, DDPMPath(20, "cosine", cosine_s=0.1).betas)


@pytest.mark.parametrize(("name", "loss"), [("l1", Absolute()), ("l2", Squared()), ("huber", Huber())])
def test_losses_are_known_by_their_old_names(name: LossType, loss: ElementLoss) -> None:
    assert compvis_objective(20, loss_type=name).loss == loss


def test_the_parameterization_is_the_prediction() -> None:
    assert compvis_objective(20, parameterization="v").prediction == "v"
