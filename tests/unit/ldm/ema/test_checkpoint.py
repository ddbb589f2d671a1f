"""LitEma in checkpoints: CompVis' keys, other names on disk, exact resume in the middle of an interval."""

import copy

import pytest
import torch
from support.averages import flat, network, train
from torch import Tensor

from ldm.ema.lit_ema import LitEma, compvis_keys
from ldm.errors import Fault


def test_checkpoint_keys_are_those_of_compvis() -> None:
    ema = LitEma(network(), update_every=5, decay=0.9995)
    ema.update(7)
    state = ema.state_dict()
    assert list(state) == ["0weight", "0bias", "1weight", "1bias", "2weight", "2bias", "num_updates", "decay"]
    assert (state["num_updates"].dtype, state["num_updates"].item()) == (torch.int32, 7)
    assert state["decay"].dtype == torch.float32
    assert state["decay"].item() == pytest.approx(0.9995, abs=1e-7)


def to_disk(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """New names, and a linear layer that is a 1x1 convolution on disk."""
    return {
        f"diffusion_model.{name}": value[..., None, None] if value.dim() == 2 else value
        for name, value in state.items()
    }


def test_a_renamed_and_reshaped_average_comes_back_bit_for_bit() -> None:
    model = network()
    ema = LitEma(model, update_every=1)
    train(model, 1)
    ema.update(1)
    state = copy.deepcopy(ema.state_dict(to_disk))
    assert state["diffusion_model2weight"].shape == (4, 3, 1, 1)
    other = LitEma(network(), update_every=1)
    other.load_state_dict(state, to_disk)
    assert torch.equal(flat(other), flat(ema))
    assert other.step == 0


def joined(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Both layers' biases in one tensor, the second in front, as files of other programs join query, key and value."""
    bias = torch.cat([state["2.bias"], state["0.bias"]])
    halves = torch.cat([state["2.weight"].narrow(0, 2, 2), state["2.weight"].narrow(0, 0, 2)])
    return {"bias": bias, "halves": halves} | {name: state[name] for name in ("0.weight", "1.weight", "1.bias")}


def test_an_average_of_tensors_that_are_joined_and_turned_round_on_disk_comes_back_bit_for_bit() -> None:
    model = network()
    ema = LitEma(model, update_every=1)
    train(model, 1)
    ema.update(1)
    state = copy.deepcopy(ema.state_dict(joined))
    assert state.keys() >= {"bias", "0weight", "halves"}
    other = LitEma(network(), update_every=1)
    other.load_state_dict(state, joined)
    assert torch.equal(flat(other), flat(ema))


def test_a_16_bit_file_loads_into_the_fp32_average() -> None:
    ema = LitEma(network())
    ema.load_state_dict({key: value.half() for key, value in ema.state_dict().items()})
    assert torch.equal(flat(ema), flat(ema).half().float())


def test_names_that_become_one_on_disk_are_refused() -> None:
    ema = LitEma(network())
    names = {"0.weight": "a.b", "0.bias": "ab"}
    with pytest.raises(ValueError, match=r"'a.b' and 'ab'"):
        ema.state_dict(lambda state: {names.get(name, name): value for name, value in state.items()})


def test_a_file_that_does_not_fit_changes_nothing_and_says_how() -> None:
    ema = LitEma(network())
    before = flat(ema).clone()
    state = {key: torch.zeros_like(value) for key, value in ema.state_dict().items()}
    del state["0bias"]
    state["2bias"] = torch.zeros(5)
    with pytest.raises(Fault) as caught:
        ema.load_state_dict(state)
    assert caught.value.id == "MOD03"
    assert "0bias is missing" in caught.value.why and "2bias is (5,) instead of (4,)" in caught.value.why
    assert torch.equal(flat(ema), before)


def test_weights_of_a_part_that_no_longer_trains_are_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    ema = LitEma(network())
    ema.load_state_dict(ema.state_dict() | {"frozenweight": torch.zeros(1)})
    assert "frozenweight" in caplog.text


def test_loading_through_copies_is_refused_rather_than_lost() -> None:
    ema = LitEma(network())
    with pytest.raises(ValueError, match="copies instead of views"):
        ema.load_state_dict(ema.state_dict(), lambda state: {name: value.clone() for name, value in state.items()})


@pytest.mark.parametrize("cut", [1, 5, 9, 10, 13])
def test_a_run_cut_between_two_updates_goes_on_bit_for_bit(cut: int) -> None:
    straight, model = network(), network()
    expected, ema = LitEma(straight, update_every=5), LitEma(model, update_every=5)
    for step in range(1, 24):
        train(straight, step)
        expected.update(step)
    for step in range(1, cut + 1):
        train(model, step)
        ema.update(step)
    state, numbers = copy.deepcopy(ema.state_dict()), ema.resume_state()
    resumed = LitEma(model, update_every=5)
    resumed.load_state_dict(state)
    resumed.load_resume_state(numbers)
    for step in range(cut + 1, 24):
        train(model, step)
        resumed.update(step)
    expected.flush(23)
    resumed.flush(23)
    assert torch.equal(flat(resumed), flat(expected))
    assert resumed.resume_state() == expected.resume_state() == {"step": 23, "last_update": 23, "update_every": 5}


def test_a_resume_keeps_the_interval_that_auto_once_chose_but_not_over_a_number() -> None:
    numbers = {"step": 40, "last_update": 40, "update_every": 20}
    auto, fixed = LitEma(network(), update_every="auto"), LitEma(network(), update_every=5)
    auto.load_resume_state(numbers)
    fixed.load_resume_state(numbers)
    assert (auto.update_every, fixed.update_every) == (20, 5)


def test_a_reset_starts_over_from_the_present_weights() -> None:
    model = network()
    ema = LitEma(model)
    train(model, 1)
    ema.reset(40)
    assert torch.equal(flat(ema), torch.cat([p.flatten() for p in model.parameters()]))
    assert ema.resume_state() == {"step": 40, "last_update": 40, "update_every": 10}


def test_a_copied_average_has_memory_of_its_own() -> None:
    model = network()
    model.model_ema = LitEma(model, update_every=1)
    twin = copy.deepcopy(model)
    train(twin, 1)
    twin.model_ema.update(1)
    assert not torch.equal(flat(twin.model_ema), flat(model.model_ema))
    assert torch.equal(flat(model.model_ema), torch.cat([p.flatten() for p in model.parameters()]))


def test_keys_keep_their_tensors() -> None:
    value = torch.ones(2)
    assert compvis_keys({"a.b.c": value})["abc"] is value
