"""Keyed draws: the key alone decides, not the order of calls, the batch or the default dtype."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.diffusion.draws import BatchDraws, Draws, key


def test_a_key_is_the_same_on_every_platform_and_forever() -> None:
    assert key(42, "noise", 7) == 1217072407952246476


@settings(deadline=None, max_examples=50)
@given(st.integers(-(2**63), 2**63), st.text(max_size=8), st.lists(st.integers(0, 10**12), max_size=3))
def test_a_key_is_a_seed_that_torch_accepts(seed: int, purpose: str, numbers: list[int]) -> None:
    assert 0 <= key(seed, purpose, *numbers) < 2**63


def test_seed_purpose_and_number_all_change_the_key() -> None:
    keys = [key(1, "noise", 2), key(2, "noise", 2), key(1, "timestep", 2), key(1, "noise", 3), key(1, "noise")]
    assert len(set(keys)) == 5


def test_digits_do_not_move_between_seed_and_slot() -> None:
    assert key(1, "noise", 12) != key(11, "noise", 2)


def test_a_purpose_gives_the_same_numbers_however_often_it_is_asked() -> None:
    draws = Draws(1, 2)
    first = torch.rand(3, generator=draws("flip"))
    torch.rand(3, generator=draws("crop"))
    assert torch.equal(first, torch.rand(3, generator=draws("flip")))


def test_a_row_of_a_batch_is_that_of_its_slot_alone() -> None:
    batch = BatchDraws(3, torch.tensor([8, 9]))
    assert len(batch) == 2
    assert torch.equal(batch.normal("noise", (2, 4))[1], BatchDraws(3, [9]).normal("noise", (2, 4))[0])
    assert torch.equal(batch.uniform("timestep")[1:], BatchDraws(3, [9]).uniform("timestep"))


def test_shapes_begin_with_the_batch() -> None:
    batch = BatchDraws(3, [0, 1])
    assert batch.normal("noise", (4, 2, 3)).shape == (2, 4, 2, 3)
    assert batch.normal("offset", ()).shape == (2,)
    assert batch.uniform("timestep").shape == (2,)
    assert batch.uniform("drop", (5,)).shape == (2, 5)


def test_normal_numbers_are_standard() -> None:
    numbers = BatchDraws(0, range(500)).normal("noise", (20,))
    assert numbers.mean().item() == pytest.approx(0, abs=0.03)
    assert numbers.std().item() == pytest.approx(1, abs=0.03)


def test_uniform_numbers_fill_the_unit_interval() -> None:
    numbers = BatchDraws(0, range(2000)).uniform("timestep")
    assert ((numbers >= 0) & (numbers < 1)).all()
    assert numbers.mean().item() == pytest.approx(0.5, abs=0.03)
    assert numbers.std().item() == pytest.approx(12**-0.5, abs=0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_default_dtype_that_a_trainer_sets_does_not_change_the_numbers(dtype: torch.dtype) -> None:
    batch = BatchDraws(0, [1, 2])
    normal, uniform = batch.normal("noise", (4,)), batch.uniform("timestep")
    torch.set_default_dtype(dtype)
    try:
        assert batch.normal("noise", (4,)).dtype == torch.float32
        assert torch.equal(batch.normal("noise", (4,)), normal)
        assert torch.equal(batch.uniform("timestep"), uniform)
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_global_generator_is_left_alone() -> None:
    before = torch.get_rng_state()
    BatchDraws(0, [1, 2]).normal("noise", (4,))
    assert torch.equal(before, torch.get_rng_state())
