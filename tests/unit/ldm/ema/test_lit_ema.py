"""LitEma: exact at any interval, and about the parameters that it was built for."""

from itertools import pairwise

import pytest
import torch
from support.averages import flat, network, one_number, train
from torch import nn

from ldm.ema.lit_ema import LitEma
from ldm.ema.profiles import ConstantDecay, HalfLife, InverseGamma, PowerDecay, Profile

PROFILES: list[Profile] = [
    ConstantDecay(0.97),
    ConstantDecay(0.97, warmup=False),
    PowerDecay(0.10),
    InverseGamma(power=0.8),
]


@pytest.mark.parametrize("profile", PROFILES, ids=repr)
@pytest.mark.parametrize("interval", [1, 7, 10, 64])
def test_interval_length_is_nothing_to_weights_that_stand_still_in_between(profile: Profile, interval: int) -> None:
    model = network()
    every_step = LitEma(model, update_every=1, profile=profile)
    sampled = LitEma(model, update_every=interval, profile=profile)
    for step in range(1, 3 * interval + 1):
        if (step - 1) % interval == 0:
            train(model, step)
        every_step.update(step)
        sampled.update(step)
    assert sampled.last_update == 3 * interval
    torch.testing.assert_close(flat(sampled), flat(every_step), rtol=1e-5, atol=1e-6)


def test_every_step_it_equals_the_rule_of_compvis() -> None:
    model = network()
    ema = LitEma(model, decay=0.93, update_every=1)
    expected = flat(ema).double()
    for step in range(1, 301):
        train(model, step)
        ema.update(step)
        keep = min(0.93, (1 + step) / (10 + step))
        weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
        expected = keep * expected + (1 - keep) * weights
    torch.testing.assert_close(flat(ema).double(), expected, rtol=1e-5, atol=1e-6)


def test_intervals_of_any_length_may_follow_one_another() -> None:
    weights, parameter = one_number(0.0)
    ema = LitEma(weights, decay=0.9, warmup=False, update_every=10)
    parameter.data.fill_(1.0)
    for a, b in pairwise([0, 3, 4, 19, 50]):
        ema.flush(b)
        assert ema.last_update == b > a
    assert flat(ema)[0].item() == pytest.approx(1 - 0.9**50, rel=1e-6)


def test_a_flush_right_after_an_update_adds_nothing() -> None:
    weights, parameter = one_number(0.0)
    ema = LitEma(weights, update_every=5)
    parameter.data.fill_(1.0)
    ema.update(5)
    before = flat(ema).clone()
    ema.flush(5)
    assert torch.equal(flat(ema), before)


@pytest.mark.parametrize(("interval", "steps"), [(1, 2_000), (10, 10_000), (100, 20_000)])
@pytest.mark.parametrize("sigma_rel", [0.05, 0.10])
def test_the_measured_profile_of_a_power_law_is_as_wide_as_asked(sigma_rel: float, interval: int, steps: int) -> None:
    parameter = nn.Parameter(torch.zeros(steps // interval))  # element i is 1 at update i alone
    ema = LitEma({"w": parameter}, update_every=interval, profile=PowerDecay(sigma_rel))
    for update in range(1, steps // interval + 1):
        parameter.data.zero_()[update - 1] = 1.0
        ema.update(update * interval)
    weight, time = flat(ema).double(), torch.arange(1, steps // interval + 1).double() * interval / steps
    mean = (weight * time).sum()
    assert weight.sum().item() == pytest.approx(1.0, abs=1e-4)
    assert (weight * (time - mean) ** 2).sum().sqrt().item() == pytest.approx(sigma_rel, rel=0.01)


def test_nothing_happens_between_two_updates() -> None:
    model = network()
    ema = LitEma(model, update_every=4)
    before = flat(ema).clone()
    for step in (1, 2, 3):
        train(model, step)
        ema.update(step)
    assert torch.equal(flat(ema), before)
    ema.update(4)
    assert not torch.equal(flat(ema), before)


def test_a_step_of_the_past_is_refused() -> None:
    ema = LitEma(network(), update_every=5)
    ema.update(10)
    with pytest.raises(ValueError, match="step 9 lies before step 10"):
        ema.update(9)


def test_auto_takes_the_longest_harmless_interval() -> None:
    assert LitEma(network(), decay=0.9995, update_every="auto").update_every == 20
    assert LitEma(network(), decay=0.9995, update_every="auto", total_steps=2_000).update_every == 4


@pytest.mark.parametrize("interval", [0, -1, 2.5, "often"])
def test_an_interval_that_is_no_number_of_steps_is_refused(interval) -> None:
    with pytest.raises(ValueError, match="update_every"):
        LitEma(network(), update_every=interval)


def test_only_parameters_that_train_are_tracked() -> None:
    model = network()
    model[0].requires_grad_(False)
    assert list(LitEma(model).averaged_state()) == ["1.weight", "1.bias", "2.weight", "2.bias"]


def test_a_model_without_trained_parameters_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to average"):
        LitEma(network().requires_grad_(False))


def test_a_parameter_frozen_later_stays_tracked() -> None:
    model = network()
    ema = LitEma(model, update_every=1, profile=HalfLife(1))
    model.requires_grad_(False)
    train(model, 1)
    before = flat(ema).clone()
    ema.update(1)
    torch.testing.assert_close(flat(ema), (before + torch.cat([p.flatten() for p in model.parameters()])) / 2)


def test_parameters_replaced_by_an_assigning_load_are_followed() -> None:
    model = network()
    ema = LitEma(model, update_every=1, profile=ConstantDecay(0.0))
    model.load_state_dict({name: torch.ones_like(value) for name, value in model.state_dict().items()}, assign=True)
    ema.update(1)
    assert torch.equal(flat(ema), torch.ones_like(flat(ema)))


def test_the_names_of_wrappers_are_removed_as_whole_parts_only() -> None:
    weights = {
        "_orig_mod.module.a.submodule.w": nn.Parameter(torch.ones(1)),
        "b._checkpoint_wrapped_module.w": nn.Parameter(torch.ones(1)),
    }
    assert list(LitEma(weights).averaged_state()) == ["a.submodule.w", "b.w"]


@pytest.mark.parametrize(("first", "second"), [("block.10.weight", "block1.0.weight"), ("module.a.w", "a.w")])
def test_names_that_would_become_one_are_refused_at_construction(first: str, second: str) -> None:
    with pytest.raises(ValueError) as caught:
        LitEma({first: nn.Parameter(torch.ones(1)), second: nn.Parameter(torch.ones(1))})
    assert first in str(caught.value) and second in str(caught.value)


def test_a_parameter_named_like_a_number_of_the_checkpoint_is_refused() -> None:
    with pytest.raises(ValueError, match="decay"):
        LitEma({"decay": nn.Parameter(torch.ones(1))})


def test_the_model_does_not_know_of_its_average() -> None:
    model = network()
    before, buffers = list(model.state_dict()), list(model.buffers())
    model.model_ema = LitEma(model)
    assert list(model.state_dict()) == before
    assert list(model.buffers()) == buffers
    model.double()
    assert flat(model.model_ema).dtype == torch.float32
