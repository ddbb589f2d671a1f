"""The fp32 copy: right for parameters of any dtype and layout, never poisoned, and updated without temporaries."""

from collections.abc import Callable

import pytest
import torch
from support.averages import flat, network, one_number, train
from torch import nn
from torch.profiler import ProfilerActivity, profile

from ldm.ema.lit_ema import LitEma

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES)
def test_parameters_of_any_dtype_move_an_fp32_average_by_the_exact_distance(dtype: torch.dtype) -> None:
    weights, parameter = one_number(1.0, dtype)
    ema = LitEma(weights, decay=0.9999, warmup=False, update_every=1)
    parameter.data.fill_(1.5)
    ema.update(1)
    assert flat(ema).dtype == torch.float32
    assert flat(ema)[0].item() - 1.0 == pytest.approx(0.5e-4, rel=1e-2)
    for step in range(2, 101):
        ema.update(step)
    assert flat(ema)[0].item() - 1.0 == pytest.approx(0.5 * (1 - 0.9999**100), rel=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_parameters_in_channels_last_order_are_averaged_in_place(dtype: torch.dtype) -> None:
    model, plain = network(dtype)[0], network(dtype)[0]
    model.to(memory_format=torch.channels_last)
    ema, expected = LitEma(model, update_every=1), LitEma(plain, update_every=1)
    for step in (1, 2):
        train(model, step)
        train(plain, step)
        ema.update(step)
        expected.update(step)
    assert torch.equal(flat(ema), flat(expected))


def test_the_average_is_one_block_of_memory_in_the_order_of_the_names() -> None:
    model = network()
    state = LitEma(model).averaged_state()
    assert list(state) == [name for name, _ in model.named_parameters()]
    assert len({view.untyped_storage().data_ptr() for view in state.values()}) == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_that_are_not_finite_are_left_out_and_counted(bad: float, dtype: torch.dtype) -> None:
    weights, parameter = one_number(0.0, dtype)
    ema = LitEma(weights, decay=0.9, warmup=False, update_every=5)
    parameter.data.fill_(1.0)
    parameter.data[2] = bad
    ema.update(5)
    assert (ema.skipped_nonfinite, ema.last_update) == (1, 5)
    assert flat(ema).tolist() == pytest.approx([1 - 0.9**5] * 2 + [0.0] + [1 - 0.9**5])


@pytest.mark.parametrize(("dtype", "large"), [(torch.float16, 60_000.0), (torch.float32, 3e38)])
def test_finite_weights_whose_sum_overflows_are_not_skipped(dtype: torch.dtype, large: float) -> None:
    weights, parameter = one_number(large, dtype)
    ema = LitEma(weights, update_every=1)
    assert parameter.sum().isinf()
    ema.update(1)
    assert (ema.skipped_nonfinite, ema.last_update) == (0, 1)


def allocated(act: Callable[[], object]) -> int:
    """Bytes that operators allocate during `act`, whether or not they are freed again."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        act()
    return sum(max(0, event.self_cpu_memory_usage) for event in record.events())


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_update_allocates_nothing_of_the_size_of_the_model(dtype: torch.dtype) -> None:
    weights = {f"w{i}": nn.Parameter(torch.ones(1 << 20, dtype=dtype)) for i in range(8)}
    ema, size = LitEma(weights, update_every=1), 8 * (1 << 20) * 4
    assert allocated(lambda: ema.update(1)) < size / 4


def test_the_measure_sees_the_temporaries_of_the_usual_formula() -> None:
    shadow, weight = torch.ones(1 << 20), torch.zeros(1 << 20)
    assert allocated(lambda: shadow.sub_(0.1 * (shadow - weight))) >= 2 * 4 * (1 << 20)
