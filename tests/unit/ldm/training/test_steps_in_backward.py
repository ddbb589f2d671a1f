"""Steps within the backward pass are those after it, to the bit, with no gradients left."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ldm.training.matrices import Adafactor
from ldm.training.several_optimizers import Joined
from ldm.training.split_weights import SplitWeights
from ldm.training.steps_in_backward import StepsInBackward, looks_at_one_tensor

Make = Callable[[list[dict[str, Any]]], torch.optim.Optimizer]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.SiLU(), nn.Flatten(), nn.Linear(144, 5), nn.Tanh(), nn.Linear(5, 2))


def groups(model: nn.Module) -> list[dict[str, Any]]:
    first, *others = model.parameters()
    return [{"params": [first], "lr": 3e-3}, {"params": others}]


def loss_of(model: nn.Module, step: int, scale: float = 1.0) -> Tensor:
    torch.manual_seed(step)
    return scale * model(torch.randn(4, 3, 8, 8)).square().mean()


MAKES: dict[str, Make] = {
    "AdamW": lambda given: torch.optim.AdamW(given, lr=1e-2, weight_decay=0.1),
    "fused AdamW": lambda given: torch.optim.AdamW(given, lr=1e-2, fused=True),
    "SGD": lambda given: torch.optim.SGD(given, lr=1e-2, momentum=0.9),
    "Adafactor": lambda given: Adafactor(given, lr=1e-2),
    "RAdam": lambda given: torch.optim.RAdam(given, lr=1e-2),
}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@pytest.mark.parametrize("by_value", [None, 0.01])
def test_weights_are_those_of_steps_after_the_pass_to_the_bit(make: Make, by_value: float | None) -> None:
    ordinary, fused = network(), network()
    after, within = make(groups(ordinary)), make(groups(fused))
    StepsInBackward(within, lambda _: within.step(), limit=by_value, by_value=by_value is not None).attach()
    for step in range(4):
        loss_of(ordinary, step).backward()
        if by_value is not None:
            nn.utils.clip_grad_value_(ordinary.parameters(), by_value)
        after.step()
        after.zero_grad()
        loss_of(fused, step).backward()
        assert all(parameter.grad is None for parameter in fused.parameters())
    assert all(torch.equal(a, b) for a, b in zip(ordinary.parameters(), fused.parameters(), strict=True))
    assert [len(group["params"]) for group in within.param_groups] == [1, 5]


def test_bfloat16_weights_with_a_master_are_stepped_as_after_the_pass() -> None:
    found = []
    for within in (False, True):
        model, weights = network(), SplitWeights()
        for parameter in model.parameters():
            weights.take(parameter)
        optimizer = torch.optim.AdamW(groups(model), lr=1e-4)
        if within:
            StepsInBackward(optimizer, lambda _, one=optimizer, own=weights: own.step(one), weights).attach()
        for step in range(3):
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(model, step)
            loss.backward()
            if not within:
                weights.step(optimizer)
                optimizer.zero_grad()
        found.append(weights.whole(model))
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_one_gradient_is_there_at_a_time() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    seen: list[int] = []
    fused = StepsInBackward(optimizer, lambda _: seen.append(sum(p.grad is not None for p in model.parameters())))
    fused.attach()
    loss_of(model, 0).backward()
    assert len(seen) == 6 and set(seen) == {1}


@pytest.mark.parametrize("split", [False, True])
def test_gradients_are_clipped_by_the_last_norm_and_each_by_its_own(split: bool) -> None:
    first, second = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
    weights = SplitWeights()
    if split:
        weights.take(first)
        weights.take(second)
    optimizer = torch.optim.SGD([first, second], lr=1.0)
    fused = StepsInBackward(optimizer, lambda _: weights.step(optimizer), weights, limit=2.0)
    fused.attach()

    def stepped(*gradients: float) -> list[float]:
        before = [one.item() for one in (first, second)]
        (first * gradients[0] + second * gradients[1]).sum().backward()
        fused.previous = float(fused.end_of_pass())
        return [round(old - new.item(), 2) for old, new in zip(before, (first, second), strict=True)]

    assert stepped(4.0, 1.0) == [2.0, 1.0]  # nothing is known before: each by its own norm
    assert fused.previous == pytest.approx(17**0.5)
    factor = 2 / 17**0.5
    assert stepped(1.0, 1.0) == pytest.approx([factor, factor], abs=0.03)  # by the norm before
    assert stepped(8.0, 0.5) == pytest.approx([2.0, 0.5], abs=0.03)  # a norm within the limit; a surprise is bounded


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("limit", [None, 1.0])
def test_a_gradient_that_is_not_finite_leaves_weights_finite_and_is_told(bad: float, limit: float | None) -> None:
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    fused = StepsInBackward(optimizer, lambda _: optimizer.step(), limit=limit)
    fused.attach()
    (weight * torch.tensor([1.0, bad, 1.0])).sum().backward()
    assert not fused.end_of_pass().isfinite()
    assert weight.isfinite().all()
    assert all(torch.as_tensor(value).isfinite().all() for value in optimizer.state[weight].values())


def test_after_it_is_detached_gradients_stay() -> None:
    model = network()
    fused = StepsInBackward(torch.optim.SGD(model.parameters(), lr=1e-2), lambda _: None)
    fused.attach()
    fused.detach()
    loss_of(model, 0).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(("kind", "known"), [(torch.optim.AdamW, True), (Adafactor, True), (Joined, False)])
def test_optimizers_that_look_at_one_tensor_are_known(kind: type, known: bool) -> None:
    assert looks_at_one_tensor(kind) is known
