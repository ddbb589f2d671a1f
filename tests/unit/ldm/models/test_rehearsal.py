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
