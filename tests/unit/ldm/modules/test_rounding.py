"""Weights in bfloat16 learn from updates that are smaller than their last bit."""

import math

import pytest
import torch
from torch import nn

from ldm.modules import rounding
from ldm.modules.rounding import keep_state_precise, rounded_step, stochastic_bfloat16

N = 4096


def seeded(number: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def parameter(value: float, gradient: float) -> nn.Parameter:
    weight = nn.Parameter(torch.full((N,), value, dtype=torch.bfloat16))
    weight.grad = torch.full((N,), gradient, dtype=torch.bfloat16)
    return weight


@pytest.mark.parametrize("value", [1.001, -1.001, 3.3e-5, -700.7])
def test_rounding_gives_one_of_the_two_neighbours_and_the_value_on_average(value: float) -> None:
    rounded = stochastic_bfloat16(torch.full((N,), value), seeded()).double()
    low, high = rounded.min().item(), rounded.max().item()
    exact = torch.tensor(value).double().item()
    assert low < exact < high and len(rounded.unique()) == 2
    share = (exact - low) / (high - low)
    error = (high - low) * math.sqrt(share * (1 - share) / N)
    assert abs(rounded.mean().item() - exact) < 4 * error


@pytest.mark.parametrize("value", [1.0, -0.5, 0.0, math.inf, -math.inf])
def test_what_bfloat16_holds_is_not_changed(value: float) -> None:
    assert (stochastic_bfloat16(torch.full((N,), value), seeded()) == value).all()


def test_nan_stays_nan() -> None:
    assert stochastic_bfloat16(torch.full((N,), math.nan), seeded()).isnan().all()


def test_a_thousand_updates_below_the_last_bit_add_up() -> None:
    """1 - 1000 x 1e-4 = 0.9, within the noise of rounding: at most half a spacing of 2^-8 a step."""
    weight = parameter(1.0, 1.0)
    optimizer = torch.optim.SGD([weight], lr=1e-4)
    for step in range(1000):
        rounded_step(optimizer, seeded(step))
    spread = math.sqrt(1000) * 2**-9
    assert weight.dtype == torch.bfloat16
    assert abs(weight.double().mean().item() - 0.9) < 4 * spread / math.sqrt(N)


def test_without_it_they_are_lost() -> None:
    weight = parameter(1.0, 1.0)
    optimizer = torch.optim.SGD([weight], lr=1e-4)
    for _ in range(1000):
        optimizer.step()
    assert (weight == 1.0).all()


def test_moments_are_in_fp32_and_the_gradient_is_as_it_was() -> None:
    weight = parameter(1.0, 0.3)
    gradient = weight.grad
    optimizer = torch.optim.AdamW([weight])
    rounded_step(optimizer, seeded())
    assert optimizer.state[weight]["exp_avg_sq"].dtype == torch.float32
    assert weight.grad is gradient


def test_portions_are_stepped_as_the_whole_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def two_steps() -> list[nn.Parameter]:
        weights = [parameter(float(i), 0.25 * i) for i in range(1, 5)]
        optimizer = torch.optim.AdamW([{"params": weights[:3]}, {"params": weights[3:], "lr": 0.1}], lr=0.5)
        for _ in range(2):
            rounded_step(optimizer, seeded())
        assert [len(group["params"]) for group in optimizer.param_groups] == [3, 1]
        return [optimizer.state[w]["exp_avg"] for w in weights] + [optimizer.state[w]["step"] for w in weights]

    whole = two_steps()
    monkeypatch.setattr(rounding, "PORTION", N)
    assert all(torch.equal(a, b) for a, b in zip(two_steps(), whole, strict=True))


@pytest.mark.parametrize(("home", "steps"), [("torch.optim.sgd", 3), ("bitsandbytes.optim.adamw", 3), ("prodigy", 1)])
def test_only_optimizers_known_to_look_at_one_tensor_at_a_time_are_stepped_in_portions(
    home: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    class Counting(torch.optim.SGD):
        def step(self, closure: object = None) -> None:  # type: ignore[override]
            seen.append(sum(p.dtype == torch.float32 for group in self.param_groups for p in group["params"]))

    Counting.__module__ = home
    monkeypatch.setattr(rounding, "PORTION", N)
    rounded_step(Counting([parameter(1.0, 1.0) for _ in range(3)]), seeded())
    assert len(seen) == steps and sum(seen) == 3


def test_loaded_moments_stay_in_fp32() -> None:
    weight = parameter(1.0, 0.3)
    optimizer = torch.optim.AdamW([weight])
    rounded_step(optimizer, seeded())
    other = nn.Parameter(weight.detach().clone())
    resumed = torch.optim.AdamW([other])
    keep_state_precise(resumed)
    resumed.load_state_dict(optimizer.state_dict())
    assert torch.equal(resumed.state[other]["exp_avg"], optimizer.state[weight]["exp_avg"])
    assert other.dtype == torch.bfloat16
