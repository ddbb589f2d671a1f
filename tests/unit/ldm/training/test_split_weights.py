"""bfloat16 weights with an fp32 master: nothing that a step or a sum of gradients adds is lost."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ldm.ema.lit_ema import LitEma
from ldm.modules import rounding
from ldm.training.split_weights import SplitWeights, joined, split

SHAPES = ((64, 32), (32,), (3, 5, 2))


def every_kind_of_number() -> Tensor:
    """Random bit patterns, ties, both zeros, the largest, the smallest, infinities; NaN is left out."""
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (100_000,), dtype=torch.int64, generator=generator).to(torch.int32)
    odd = [0.0, -0.0, 1 + 2**-8, -(1 + 2**-8), 1 + 3 * 2**-8, 3.4e38, 1e-45, -1e-45, torch.inf, -torch.inf]
    x = torch.cat([bits.view(torch.float32), torch.tensor(odd)])
    return x[~x.isnan()]


def test_both_halves_give_every_number_back_to_the_bit() -> None:
    x = every_kind_of_number()
    high, low = split(x)
    assert high.dtype == torch.bfloat16 and low.dtype == torch.int16
    assert torch.equal(joined(high, low).view(torch.int32), x.view(torch.int32))


def test_the_upper_half_is_the_nearest_bfloat16() -> None:
    x = every_kind_of_number()
    ties = (x.view(torch.int32) & 0xFFFF) == 0x8000
    assert torch.equal(split(x)[0][~ties], x[~ties].to(torch.bfloat16))


@pytest.mark.parametrize("bits", [0x7FFFFFFF, 0x7FC00000, -1, 0x7F800001])
def test_nan_stays_nan(bits: int) -> None:
    high, low = split(torch.tensor([bits], dtype=torch.int32).view(torch.float32))
    assert high.isnan().all() and joined(high, low).isnan().all()


class Loops:
    """The same weights twice, in halves and in fp32, which get the same bfloat16 gradients."""

    def __init__(self, kind: Any, **settings: Any) -> None:
        generator = torch.Generator().manual_seed(1)
        start = [torch.randn(shape, generator=generator) for shape in SHAPES]
        self.halves = [nn.Parameter(one.clone()) for one in start]
        self.whole = [nn.Parameter(one.clone()) for one in start]
        self.weights = SplitWeights()
        for parameter in self.halves:
            self.weights.take(parameter)
        self.optimizer = kind(self.halves, **settings)
        self.reference = kind(self.whole, **settings)

    def pass_backward(self, scale: float = 1.0) -> None:
        for half, whole in zip(self.halves, self.whole, strict=True):
            gradient = (torch.randn(whole.shape) * scale).to(torch.bfloat16)
            (half * gradient).sum().backward()  # through autograd, as a network's
            whole.grad = gradient.float() if whole.grad is None else whole.grad + gradient.float()

    def step(self) -> None:
        self.weights.step(self.optimizer)
        self.reference.step()
        self.optimizer.zero_grad()
        self.reference.zero_grad()

    def require_equal(self) -> None:
        for half, whole in zip(self.halves, self.whole, strict=True):
            low = self.weights.lower_half(half)
            assert low is not None and half.dtype == torch.bfloat16
            assert torch.equal(joined(half.data, low), whole.data)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(torch.optim.AdamW, {"lr": 1e-4}), (torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9}), (torch.optim.Adafactor, {})],
)
@pytest.mark.parametrize("portion", [rounding.PORTION, 1])
def test_steps_are_those_of_an_fp32_loop_to_the_bit(
    kind: Any, settings: Mapping[str, Any], portion: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounding, "PORTION", portion)
    torch.manual_seed(2)
    loops = Loops(kind, **settings)
    for _ in range(5):
        loops.pass_backward()
        loops.step()
        loops.require_equal()


@pytest.mark.parametrize(("limit", "by_value"), [(0.5, False), (1e9, False), (0.3, True)])
@pytest.mark.parametrize("window", [1, 3])
def test_windows_and_clipping_are_those_of_an_fp32_loop_to_the_bit(limit: float, by_value: bool, window: int) -> None:
    torch.manual_seed(3)
    loops = Loops(torch.optim.AdamW, lr=1e-2)
    if window > 1:
        loops.weights.sum_gradients()
    for _ in range(3):
        for _ in range(window):
            loops.pass_backward()
        loops.weights.bring_gradients()
        loops.weights.clip(loops.halves, limit, by_value)
        clip: Any = nn.utils.clip_grad_value_ if by_value else nn.utils.clip_grad_norm_
        clip(loops.whole, limit)
        loops.step()
        loops.require_equal()


@pytest.fixture
def one() -> Iterator[tuple[nn.Parameter, SplitWeights]]:
    parameter, weights = nn.Parameter(torch.full((8,), 1.0)), SplitWeights()
    weights.take(parameter)
    yield parameter, weights


def test_256_equal_micro_gradients_add_up(one: tuple[nn.Parameter, SplitWeights]) -> None:
    parameter, weights = one
    gradient = torch.tensor(0.1).to(torch.bfloat16)
    weights.sum_gradients()
    for _ in range(256):
        (parameter * gradient).sum().backward()
    weights.bring_gradients()
    torch.testing.assert_close(weights.gradient(parameter), torch.full((8,), 256 * float(gradient)), rtol=1e-6, atol=0)
    assert parameter.grad is not None and parameter.grad.dtype == torch.bfloat16


def test_a_window_begins_without_what_the_last_one_summed(one: tuple[nn.Parameter, SplitWeights]) -> None:
    parameter, weights = one
    end = weights.sum_gradients()
    parameter.sum().backward()
    weights.bring_gradients()
    weights.step(torch.optim.SGD([parameter], lr=0.0))
    parameter.grad = None
    parameter.sum().backward()
    weights.bring_gradients()
    assert torch.equal(weights.gradient(parameter), torch.ones(8))
    parameter.grad = None
    end()
    parameter.sum().backward()
    assert parameter.grad is not None


def test_updates_of_a_4096th_move_the_master_every_time(one: tuple[nn.Parameter, SplitWeights]) -> None:
    parameter, weights = one
    optimizer = torch.optim.SGD([parameter], lr=2.0**-12)
    for step in range(1, 9):
        parameter.grad = torch.ones_like(parameter)
        weights.step(optimizer)
        low = weights.lower_half(parameter)
        assert low is not None and torch.equal(joined(parameter.data, low), torch.full((8,), 1 - step * 2.0**-12))


def test_fp32_parameters_beside_are_clipped_together_and_stepped_as_they_are() -> None:
    half, whole, weights = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(12)), SplitWeights()
    weights.take(half)
    half.grad, whole.grad = torch.ones_like(half), torch.ones_like(whole)
    weights.clip([half, whole], 2.0)  # the norm is 4
    weights.step(torch.optim.SGD([half, whole], lr=0.5))
    assert whole.dtype == torch.float32
    torch.testing.assert_close(whole.data, torch.full((12,), 0.75))
    torch.testing.assert_close(half.data.float(), torch.full((4,), 0.75))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((8,), 1.0))
        self.adapter = nn.Parameter(torch.full((2,), 3.0))


@pytest.fixture
def averaged() -> tuple[Network, SplitWeights, LitEma]:
    """A weight that moved by less than bfloat16 shows, and an fp32 one, averaged over one step at equal shares."""
    network, weights = Network(), SplitWeights()
    weights.take(network.weight)
    ema = LitEma(weights.ema_source(network), decay=0.5, warmup=False, update_every=1)
    network.weight.grad = torch.ones_like(network.weight)
    weights.step(torch.optim.SGD(network.parameters(), lr=2.0**-12))
    ema.update(1)
    return network, weights, ema


def test_an_average_follows_the_master(averaged: tuple[Network, SplitWeights, LitEma]) -> None:
    _, _, ema = averaged
    assert torch.equal(ema.averaged_state()["weight"], torch.full((8,), 1 - 2.0**-13))
    assert torch.equal(ema.averaged_state()["adapter"], torch.full((2,), 3.0))


def test_a_swap_gives_weights_and_master_back(averaged: tuple[Network, SplitWeights, LitEma]) -> None:
    network, weights, ema = averaged
    before = weights.whole(network)["weight"]
    assert torch.equal(ema.raw_state()["weight"], before)
    with ema.scope():
        network.weight.data.fill_(7.0)
        assert torch.equal(ema.raw_state()["weight"], before)
    assert torch.equal(weights.whole(network)["weight"], before)
    assert torch.equal(before, torch.full((8,), 1 - 2.0**-12))


def test_a_model_without_lower_halves_is_averaged_as_it_is() -> None:
    network = Network()
    assert SplitWeights().ema_source(network) is network and SplitWeights().whole(network) == {}
