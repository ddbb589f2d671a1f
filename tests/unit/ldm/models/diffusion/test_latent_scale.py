"""What the network sees of latents: shifted and scaled, by one number or by one for each channel, and back."""

from typing import Any

import pytest
import torch
from support.models import tiny_model

from ldm.errors import Fault
from ldm.models.diffusion.export_facts import facts_of, networks_of
from ldm.models.diffusion.inpainting import nothing_around
from ldm.models.diffusion.latent_scale import scale_of_library

SD3 = {"scale_factor": 1.5305, "shift_factor": 0.0609}
EACH = {"scale_factor": [0.5, 1.0, 2.0, 4.0], "shift_factor": [-1.0, 0.0, 1.0, 2.0]}
Batch = dict[str, Any]


@pytest.mark.parametrize("params", [SD3, EACH, {**SD3, "shift_factor": EACH["shift_factor"]}])
def test_latents_are_shifted_then_scaled_and_the_way_back_undoes_it(batch: Batch, params: dict[str, Any]) -> None:
    plain, scaled = tiny_model(), tiny_model(**params)
    for model in (plain, scaled):
        model.configure_model()
        model.eval()
    scale, shift = (torch.tensor(params[name]) for name in ("scale_factor", "shift_factor"))
    z = plain.encode(batch, plain.draws(batch))
    x0 = scaled.encode(batch, scaled.draws(batch))
    assert torch.equal(x0.movedim(1, -1), (z.movedim(1, -1) - shift) * scale)
    torch.testing.assert_close(scaled.unscaled(x0), z, atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.decode(x0), plain.decode(z), atol=1e-5, rtol=0)


def test_a_network_for_inpainting_sees_the_same_latents() -> None:
    model = tiny_model(**SD3)
    model.configure_model()
    mean = model.first_stage_model.encode_moments(torch.zeros(1, 3, 8, 8)).chunk(2, dim=1)[0]
    assert torch.equal(nothing_around(model, 1)[:, 1:], (mean - model.shift_factor) * model.scale_factor)


def test_latents_in_half_precision_stay_so(batch: Batch) -> None:
    model = tiny_model(**EACH)
    model.configure_model()
    cached = {"moments": torch.ones(3, 8, 4, 4, dtype=torch.bfloat16), "slot": batch["slot"]}
    assert model.encode(cached, model.draws(cached)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"scale_factor": 0.0}, "scale_factor is 0"),
        ({"scale_factor": [1.0, 0.0, 1.0, 1.0]}, "scale_factor is 0"),
        ({"scale_factor": [1.0, 2.0]}, "scale_factor has 2 numbers"),
        ({"shift_factor": [0.0] * 16}, "shift_factor has 16 numbers"),
        ({"shift_factor": float("nan")}, "shift_factor is nan"),
        ({"scale_factor": float("inf")}, "scale_factor is inf"),
    ],
)
def test_numbers_that_no_latent_can_have_are_refused(params: dict[str, Any], what: str) -> None:
    with pytest.raises(Fault, match=what) as caught:
        tiny_model(**params)
    assert (caught.value.id, caught.value.where) == ("CFG03", f"model.params.{next(iter(params))}")


@pytest.mark.parametrize("params", [SD3, EACH, {"scale_factor": 0.18215}])
def test_what_files_say_of_it_builds_the_same_again(params: dict[str, Any]) -> None:
    model = tiny_model(**params)
    model.configure_model()
    facts = facts_of(model, networks_of(model))
    assert facts.configs["vae"]["scaling_factor"] == facts.scale_factor
    again = tiny_model(**dict(zip(SD3, scale_of_library(facts.configs["vae"]), strict=True)))
    z = torch.randn(2, 4, 3, 3)
    torch.testing.assert_close(again.scaled(z), model.scaled(z), rtol=1e-6, atol=1e-6)


def test_a_scale_that_is_still_to_be_measured_is_said_nowhere() -> None:
    model = tiny_model(scale_by_std=True)
    model.configure_model()
    assert facts_of(model, networks_of(model)).scale_factor is None
