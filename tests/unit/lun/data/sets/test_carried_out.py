"""What a set asks of a model is carried out, or refused by name."""

from types import SimpleNamespace
from typing import Any

import pytest

from ldm.errors import Fault
from ldm.models.autoencoder import AutoencoderKL
from ldm.models.diffusion.ddpm import DDPM, LatentDiffusion
from ldm.models.model_parts import PartSize, TrainingPlan
from lun.data.sets.carried_out import require_carried_out
from lun.data.sets.set_settings import MixSettings, SetRecipe

FOR_MODEL: dict[str, Any] = {"loss_weight": 0.5, "timesteps": [0, 500], "ucg_rate": 0.1, "kind": "prior"}
OF_THE_ORDER = {"target", "params", "repeats", "weight", "resolutions", "from_step", "until_step"}
UNET = PartSize("UNet", 860_000_000, 860_000_000)


def asked(kind: type, key: str, strategy: str = "auto", changes: tuple[str, ...] = ()) -> None:
    sets = {"mine": {"target": "a.B", key: FOR_MODEL[key]}, "other": {"target": "a.B"}}
    plan = TrainingPlan([UNET], changes_base=list(changes))
    model: Any = SimpleNamespace(heeds=kind.heeds, training_plan=lambda: plan)
    require_carried_out(model, MixSettings.read({"sets": sets}), strategy)


def test_every_key_of_a_set_is_of_the_order_or_for_the_model() -> None:
    assert SetRecipe.__annotations__.keys() == OF_THE_ORDER | FOR_MODEL.keys()


@pytest.mark.parametrize("kind", [AutoencoderKL, DDPM, LatentDiffusion])
@pytest.mark.parametrize("key", FOR_MODEL)
def test_a_key_for_the_model_is_heeded_or_named(kind: Any, key: str) -> None:
    if key in kind.heeds:
        asked(kind, key)
    else:
        with pytest.raises(Fault, match=rf"sets\.mine\.{key} has no effect"):
            asked(kind, key)


def test_a_latent_diffusion_model_heeds_all_of_them() -> None:
    assert LatentDiffusion.heeds == FOR_MODEL.keys()


@pytest.mark.parametrize(
    ("strategy", "changes", "told"),
    [
        ("auto", ("unet.conv_in.weight", "b"), "needs the model as it was before training"),
        ("fsdp", (), "cannot be trained under fsdp"),
        ("deepspeed", (), "cannot be trained under deepspeed"),
    ],
)
def test_where_the_base_cannot_be_had_its_cost_or_the_way_is_told(strategy: str, changes: Any, told: str) -> None:
    with pytest.raises(Fault) as raised:
        asked(LatentDiffusion, "kind", strategy, changes)
    assert raised.value.id == "CFG08" and told in raised.value.what and "sets.mine.kind" in raised.value.where
    assert raised.value.fix and (strategy != "auto" or "860.00 M numbers or 3.2 GiB" in raised.value.why)
