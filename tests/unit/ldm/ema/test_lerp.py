"""Averages on their way to the weights: the same numbers from compiled code and from torch, whatever the sources."""

import pytest
import torch
from torch import Tensor

from ldm.ema import compiled, lerp

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
WEIGHTS = [0.0, 1e-4, 0.3, 0.5, 0.9, 1.0]


@pytest.fixture(params=["compiled", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways, on any machine that has a compiler."""
    monkeypatch.setattr(lerp, "CHUNK", 700)
    if request.param == "torch":
        monkeypatch.setattr(compiled, "kernel", lambda: None)
    elif compiled.kernel() is None:
        pytest.skip("no C compiler here")
    return str(request.param)


def sources(dtype: torch.dtype, seed: int = 0) -> list[Tensor]:
    """Sizes around the blocks and chunks, an empty one, and one that is not contiguous."""
    torch.manual_seed(seed)
    shapes = [(3,), (0,), (1024,), (1025,), (41, 50), (1,)]
    return [torch.randn(shape).to(dtype) for shape in shapes] + [torch.randn(6, 7).to(dtype).T]


def flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.float().reshape(-1) for tensor in tensors])


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_number_moves_as_torch_lerp_moves_it(way: str, dtype: torch.dtype, weight: float) -> None:
    values = sources(dtype)
    average = torch.randn(flat(values).numel())
    expected = average.lerp(flat(values), weight)
    assert lerp.lerp([average], values, [weight]) == 0
    assert torch.allclose(average, expected, rtol=2e-7, atol=2e-7)


@pytest.mark.skipif(compiled.kernel() is None, reason="no C compiler here")
@pytest.mark.parametrize("dtype", DTYPES)
def test_compiled_code_and_torch_agree_in_every_bit(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    values, found = sources(dtype), []
    for way in ("compiled", "torch"):
        torch.manual_seed(1)
        averages = [torch.randn(flat(values).numel()) for _ in range(2)]
        if way == "torch":
            monkeypatch.setattr(compiled, "kernel", lambda: None)
        for weight in (1e-4, 0.3, 0.7, 1.0):
            lerp.lerp(averages, values, [weight, weight / 2])
        found.append(torch.stack(averages))
    assert torch.equal(*found)


def test_several_averages_move_each_by_its_own_weight(way: str) -> None:
    values = sources(torch.bfloat16)
    averages = [torch.zeros(flat(values).numel()) for _ in range(3)]
    lerp.lerp(averages, values, [0.1, 0.2, 1.0])
    for average, weight in zip(averages, [0.1, 0.2, 1.0], strict=True):
        assert torch.allclose(average, weight * flat(values))


@pytest.mark.parametrize("weight", [1e-3, 0.8])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_leaves_its_average_as_it_is(
    way: str, dtype: torch.dtype, bad: float, weight: float
) -> None:
    values = sources(dtype)
    values[3][[0, 900, 1024]] = bad
    averages = [torch.randn(flat(values).numel()) for _ in range(2)]
    before = torch.stack(averages)
    assert lerp.lerp(averages, values, [weight, 0.6]) == 3
    left_out = ~flat(values).isfinite()
    assert torch.equal(torch.stack(averages)[:, left_out], before[:, left_out])
    assert torch.stack(averages).isfinite().all()
    expected = before[0].lerp(flat(values).nan_to_num(), weight)[~left_out]
    assert torch.allclose(averages[0][~left_out], expected, rtol=2e-7, atol=2e-7)


def test_finite_numbers_at_the_end_of_the_range_are_taken_in(way: str) -> None:
    average = torch.zeros(4)
    largest = torch.finfo(torch.float32).max
    assert lerp.lerp([average], [torch.tensor([largest, largest, -largest, 1e-45])], [1.0]) == 0
    assert average.tolist() == pytest.approx([largest, largest, -largest, 1e-45])


@pytest.mark.skipif(compiled.kernel() is None, reason="no C compiler here")
@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_threads_share_the_work_without_gap_or_overlap(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "SHARE", 100)
    values = [value for value in sources(torch.float32) if value.is_contiguous()]
    placed, at = [], 0
    for value in values:
        placed.append((at, value))
        at += value.numel()
    average = torch.zeros(at)
    kernel = compiled.kernel()
    assert kernel is not None
    kernel.lerp([average], placed, [0.25], threads)
    assert torch.equal(average, 0.25 * flat(values))


def test_tensors_that_compiled_code_cannot_read_keep_their_places_among_the_others(way: str) -> None:
    values = [torch.full((5,), 1.0), torch.full((4,), 2.0, dtype=torch.float16), torch.full((3,), 3.0).bfloat16()]
    average = torch.zeros(12)
    lerp.lerp([average], values, [1.0])
    assert average.tolist() == [1.0] * 5 + [2.0] * 4 + [3.0] * 3


@pytest.mark.parametrize("size", [4, 6])
def test_averages_of_another_size_are_refused_before_anything_is_written(way: str, size: int) -> None:
    average = torch.zeros(size)
    with pytest.raises(ValueError, match="differ in size"):
        lerp.lerp([average], [torch.ones(5)], [0.5])
    assert average.tolist() == [0.0] * size
