import pytest
from support.models import tiny_model

from ldm.errors import Fault
from ldm.models.rehearsal import rehearse


def test_settings_that_can_be_are_let_through() -> None:
    rehearse(tiny_model(scheduler_config=None), 10, 2)
    rehearse(tiny_model(scheduler_config=None, use_ema=False), -1, 2)


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        ("optimizer_config", {"target": "torch.optim.AdamW", "params": {"betas": [2, 3]}}),
        ("ema_config", {"target": "ldm.modules.ema.LitEma", "params": {"decay": 1.5}}),
    ],
)
def test_what_cannot_be_is_told_with_its_target(name: str, recipe: dict) -> None:
    with pytest.raises(Fault) as told:
        rehearse(tiny_model(scheduler_config=None, **{name: recipe}), 10, 2)
    assert told.value.id == "CFG08"
    assert recipe["target"] in told.value.what


def test_the_decay_by_itself_goes_over_that_of_the_whole_recipe() -> None:
    model = tiny_model(ema_decay=0.5, scheduler_config=None)
    assert model.ema_config["params"] == {"decay": 0.5, "update_every": 2}
    rehearse(model, 10, 2)


RULES = "ldm.training.rules.Rules"
STEPS = {"target": "torch.optim.lr_scheduler.StepLR", "params": {"step_size": 2}}
PRODIGY = {"target": "prodigyopt.Prodigy"}
JOINED = {
    "target": "ldm.training.several_optimizers.Joined",
    "params": {
        "otherwise": "adamw",
        "optimizers": {"adamw": {"target": "torch.optim.AdamW"}, "muon": {"target": "ldm.training.matrices.Muon"}},
    },
}


def ruled(optimizer: dict, **rules: dict) -> None:
    config = {"target": RULES, "params": {"rules": rules}}
    rehearse(tiny_model(scheduler_config=None, optimizer_config=optimizer, training_config=config), 10, 2)


def test_optimizers_are_tried_with_the_groups_that_rules_make() -> None:
    ruled(PRODIGY, one={"match": "*", "lr": 1.0}, end={"match": "text_encoder.*", "until": 5})
    ruled(JOINED, muon={"match": "unet.*", "ndim": [2, 4], "optimizer": "muon"})


@pytest.mark.parametrize(
    ("optimizer", "rules", "says"),
    [
        (PRODIGY, {"half": {"match": "unet.*", "lr": "0.5x"}}, "different lr values"),
        (PRODIGY, {"all": {"match": "*", "lr": 1.0}, "own": {"match": "unet.*", "schedule": STEPS}}, "different lr"),
        (JOINED, {"muon": {"match": "unet.*", "optimizer": "muon"}}, "Muon"),
        (JOINED, {"none": {"match": "unet.*", "weight_decay": 0.0}}, "muon has nothing to do"),
        (JOINED, {"all": {"match": "*", "ndim": [2, 4], "optimizer": "muon", "betas": [0, 0]}}, "no setting betas"),
        (
            {"target": "torch.optim.AdamW"},
            {"muon": {"match": "unet.*", "optimizer": "muon"}},
            "unknown setting optimizer",
        ),
    ],
)
def test_an_optimizer_that_rules_do_not_fit_is_refused(optimizer: dict, rules: dict, says: str) -> None:
    with pytest.raises(Fault) as told:
        ruled(optimizer, **rules)
    assert says in told.value.render()
