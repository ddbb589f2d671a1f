"""The mean of the last N steps against its closed form, resumed bit for bit, and N as another word for a decay."""

import copy

import pytest
import torch
from support.averages import flat, network, train, weights
from torch import Tensor, nn

from ldm.ema.lit_ema import LitEma
from ldm.ema.profiles import ConstantDecay, TrailingMean, decay_of_span
from ldm.ema.trailing_mean import WindowTrack
from ldm.errors import Fault


def window(model: nn.Module, steps: int, blocks: int = 4, update_every: int = 1, **more: object) -> LitEma:
    return LitEma(model, update_every=update_every, profile=TrailingMean(steps, blocks), **more)  # type: ignore[arg-type]


def trained(model: nn.Module, ema: LitEma, first: int, last: int) -> list[Tensor]:
    """The weights after each of the steps first..last, which `ema` sees."""
    record = []
    for step in range(first, last + 1):
        train(model, step)
        ema.update(step)
        record.append(weights(model).double())
    return record


def near(ema: LitEma, expected: Tensor) -> None:
    torch.testing.assert_close(flat(ema).double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("steps", "blocks", "every"), [(12, 4, 1), (12, 1, 1), (12, 12, 1), (20, 2, 5), (12, 3, 4)])
def test_whenever_the_window_begins_with_a_block_it_is_the_plain_mean(steps: int, blocks: int, every: int) -> None:
    model = network()
    ema = window(model, steps, blocks, every)
    record: list[Tensor] = []
    block = max(every, steps // blocks)
    for end in range(block, 6 * steps, block):
        record += trained(model, ema, len(record) + 1, end)
        near(ema, torch.stack(record[every - 1 :: every][-(steps // every) :]).mean(0))


def test_until_it_is_full_it_is_the_mean_of_all_there_were_and_of_no_weights_before() -> None:
    model = network()
    ema = window(model, 100, 4)
    record = trained(model, ema, 1, 30)
    near(ema, torch.stack(record).mean(0))


def test_with_as_many_blocks_as_steps_it_is_exact_at_every_step() -> None:
    model = network()
    ema = window(model, 7, 7)
    record: list[Tensor] = []
    for step in range(1, 30):
        record += trained(model, ema, step, step)
        near(ema, torch.stack(record[-7:]).mean(0))


@pytest.mark.parametrize("blocks", [1, 2, 4, 8])
def test_between_blocks_the_oldest_counts_as_far_as_it_reaches_into_the_window(blocks: int) -> None:
    """Of weights that drift by 1 a step the mean age is then off by at most N / (8 blocks^2) steps."""
    weight = nn.Parameter(torch.zeros(1))
    ema = LitEma({"w": weight}, update_every=1, profile=TrailingMean(64, blocks))
    off = []
    for step in range(1, 321):
        weight.data.fill_(float(step))
        ema.update(step)
        if step > 128:
            off.append(abs(float(flat(ema)) - (step - 63 / 2)))
    assert 0.9 * 64 / (8 * blocks**2) <= max(off) <= 64 / (8 * blocks**2) + 1e-3
    assert min(off) < 1e-3


def test_it_takes_no_more_copies_of_the_weights_than_blocks_and_two() -> None:
    model = network()
    ema = window(model, 12, 4)
    most = 0
    for step in range(1, 100):
        train(model, step)
        ema.update(step)
        most = max(most, len(ema._main.blocks) + 1)
    assert most == 4 + 2
    places = {block.shadow.flat.data_ptr() for block in ema._main.blocks if block.shadow}
    trained(model, ema, 100, 160)
    assert places == {block.shadow.flat.data_ptr() for block in ema._main.blocks if block.shadow}


@pytest.mark.parametrize("at", [0, 5, 6, 7, 31])
def test_a_resume_at_any_step_is_bit_equal(at: int) -> None:
    model = network()
    straight = window(model, 12, 4, 2)
    trained(model, straight, 1, at)
    cut = window(other := copy.deepcopy(model), 12, 4, 2)
    cut.load_state_dict(straight.state_dict())
    cut.load_resume_state(straight.resume_state())
    assert torch.equal(flat(cut), flat(straight))
    for first, last in ((at + 1, at + 4), (at + 5, at + 40)):
        trained(model, straight, first, last)
        trained(other, cut, first, last)
        assert torch.equal(flat(cut), flat(straight))
    ours, theirs = cut.resume_state()["blocks"], straight.resume_state()["blocks"]
    assert len(ours) == len(theirs) >= 4
    for a, b in zip(ours, theirs, strict=True):
        assert a["last_update"] == b["last_update"] and a.get("start") == b.get("start")
        assert all(torch.equal(a["weights"][name], b["weights"][name]) for name in a["weights"])


def test_an_average_that_another_law_left_counts_until_its_steps_have_left_the_window() -> None:
    model = network()
    before = LitEma(model, decay=0.9, update_every=1)
    trained(model, before, 1, 20)
    after = window(model, 10, 5)
    after.load_state_dict(before.state_dict())
    after.load_resume_state(before.resume_state())
    old = flat(after).double()
    assert torch.equal(old, flat(before).double())
    record = trained(model, after, 21, 24)
    near(after, (6 * old + torch.stack(record).sum(0)) / 10)
    record += trained(model, after, 25, 30)
    near(after, torch.stack(record).mean(0))


def test_swapping_and_numbers_that_are_not_finite_are_those_of_any_average() -> None:
    model = network()
    ema = window(model, 4, 2)
    trained(model, ema, 1, 9)
    raw, average = weights(model), flat(ema)
    with ema.scope():
        assert torch.equal(weights(model), average)
    assert torch.equal(weights(model), raw)
    next(model.parameters()).data.fill_(torch.nan)
    for step in range(10, 20):
        ema.update(step)
    assert flat(ema).isfinite().all() and ema.skipped_nonfinite == 10


def test_a_span_is_a_decay_whose_weights_are_as_old_on_average() -> None:
    assert decay_of_span(9) == pytest.approx(1 - 2 / 10)
    assert LitEma(network(), span=1999).profile == ConstantDecay(0.999)
    assert LitEma(network(), span=1999, warmup=False).profile == ConstantDecay(0.999, warmup=False)
    ages = torch.arange(10**5, dtype=torch.float64)
    share = (1 - decay_of_span(50)) * decay_of_span(50) ** ages
    assert float((share * ages).sum()) == pytest.approx((50 - 1) / 2)


@pytest.mark.parametrize("more", [{"half_life_steps": 5.0}, {"profile": ConstantDecay(0.9)}])
def test_two_laws_at_once_are_refused_by_name(more: dict[str, object]) -> None:
    with pytest.raises(Fault, match=f"by {next(iter(more))}|and by {next(iter(more))}"):
        LitEma(network(), span=10, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("steps", "blocks"), [(0, 4), (10, 0), (-1, 1)])
def test_a_window_of_nothing_is_no_window(steps: int, blocks: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        TrailingMean(steps, blocks)


def test_auto_takes_an_interval_within_one_percent_of_the_window() -> None:
    ema = LitEma(network(), update_every="auto", profile=TrailingMean(2000), total_steps=10**5)
    assert isinstance(ema._main, WindowTrack) and ema.update_every == 10
