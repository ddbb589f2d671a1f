"""A learned weighting beside the networks: what rules, the plan, the optimizer and shards know of it."""

from typing import Any

import pytest
from support.models import tiny_model

from ldm.errors import Fault
from ldm.models.diffusion.ddpm import LatentDiffusion

LEARNED = {
    "target": "ldm.diffusion.objective.Objective",
    "params": {"weighting": {"target": "ldm.diffusion.weighting.Uncertainty", "params": {"channels": 6}}},
}


def learning(**rules: Any) -> LatentDiffusion:
    recipe = {"target": "ldm.training.rules.Rules", "params": {"rules": rules}}
    settings: Any = {"scheduler_config": None, "cond_stage_trainable": False}
    model = tiny_model(objective=LEARNED, training_config=recipe, **settings)
    model.learning_rate = 1e-3
    return model


def test_it_is_the_last_group_at_the_rate_of_its_rule_and_a_unit_of_its_own_for_shards() -> None:
    model = learning(weighting={"match": "objective.weighting.*", "lr": 0.01})
    planned = [group.described(1e-3) for group in model.training_plan().groups]
    assert planned[-1] == "6 in 1 tensors at 1.0e-02 (weighting)"
    model.configure_model()
    groups = model.configure_optimizers()["optimizer"].param_groups
    assert [group["lr"] for group in groups] == [1e-3, 0.01]
    units = {unit.module: unit.precise for unit in model.forward_units()}
    assert units[model.objective.weighting] and model.objective not in units


def test_weights_of_levels_are_nothing_to_train_a_model_by() -> None:
    with pytest.raises(Fault, match="the rules freeze everything"):
        learning(all={"match": "unet.*", "train": False}).training_plan()
