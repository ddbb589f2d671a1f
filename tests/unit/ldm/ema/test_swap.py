"""LitEma puts the average into the model and gives back every bit of what was there."""

from collections.abc import Callable

import pytest
import torch
from support.averages import flat, network, one_number, train
from torch import Tensor, nn

from ldm.ema.lit_ema import LitEma

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def bits(model: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone().view(torch.uint8) for parameter in model.parameters() if parameter.dim()]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_a_swap_gives_every_bit_back(dtype: torch.dtype, error: type[BaseException] | None) -> None:
    model = network(dtype)
    ema = LitEma(model, update_every=1)
    train(model, 1)
    model[2].bias.data[:2] = torch.tensor([-0.0, 1e-7])
    ema.update(1)
    train(model, 2)
    before = bits(model)
    try:
        with ema.scope():
            average = ema.averaged_state()
            assert all(torch.equal(inside, average[name].to(dtype)) for name, inside in model.named_parameters())
            assert any(not torch.equal(now, then) for now, then in zip(bits(model), before, strict=True))
            if error is not None:
                raise error
    except (ValueError, KeyboardInterrupt) as caught:
        assert type(caught) is error
    assert all(torch.equal(now, then) for now, then in zip(bits(model), before, strict=True))
    assert not ema.swapped


def test_a_swap_broken_off_half_way_gives_every_bit_back(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network()
    ema = LitEma(model)
    train(model, 1)
    before = bits(model)

    def interrupted(tensors: dict[str, Tensor]) -> None:
        next(iter(tensors.values())).data.zero_()
        raise KeyboardInterrupt

    monkeypatch.setattr(ema._shadow, "give", interrupted)
    with pytest.raises(KeyboardInterrupt), ema.ema_scope():
        pass
    assert all(torch.equal(now, then) for now, then in zip(bits(model), before, strict=True))


def test_raw_weights_that_are_not_finite_come_back_too() -> None:
    weights, parameter = one_number(1.0)
    ema = LitEma(weights)
    parameter.data.view(torch.int32)[:] = torch.tensor([0x7FC00001, 0x7F800000, -0x800000, 0x7F800123])
    before = parameter.data.view(torch.int32).clone()
    with ema.scope():
        assert parameter.tolist() == [1.0] * 4
    assert torch.equal(parameter.data.view(torch.int32), before)


@pytest.mark.parametrize(
    "act",
    [
        lambda ema: ema.scope().__enter__(),
        lambda ema: ema.update(1),
        lambda ema: ema.flush(1),
        lambda ema: ema.reset(),
        lambda ema: ema.load_state_dict(ema.state_dict()),
    ],
    ids=["swap", "update", "flush", "reset", "load"],
)
def test_while_swapped_the_average_cannot_change(act: Callable[[LitEma], None]) -> None:
    model = network()
    ema = LitEma(model)
    train(model, 1)
    raw, average = bits(model), flat(ema).clone()
    with ema.scope(), pytest.raises(RuntimeError, match="swapped"):
        act(ema)
    assert all(torch.equal(now, then) for now, then in zip(bits(model), raw, strict=True))
    assert torch.equal(flat(ema), average)


def test_a_checkpoint_written_while_swapped_can_hold_the_raw_weights() -> None:
    model = network(torch.bfloat16)
    ema = LitEma(model, update_every=1)
    train(model, 1)
    expected = {name: value.clone() for name, value in model.state_dict().items()}
    assert all(torch.equal(ema.raw_state()[name], value) for name, value in expected.items())
    with ema.scope():
        saved = model.state_dict() | ema.raw_state()
        assert all(torch.equal(saved[name], value) for name, value in expected.items())
        assert {value.dtype for value in saved.values()} == {torch.bfloat16}
        assert not torch.equal(model.state_dict()["0.weight"], expected["0.weight"])


def test_use_inside_inference_mode_leaves_model_and_average_writable() -> None:
    model = network(torch.bfloat16)
    with torch.inference_mode():
        ema = LitEma(model, update_every=1)
    with torch.inference_mode(), ema.scope():
        pass
    train(model, 1)
    with torch.inference_mode():
        ema.update(1)
    train(model, 2)
    ema.update(2)
    assert model[2](torch.ones(1, 3, dtype=torch.bfloat16)).sum().backward() is None
    assert ema.last_update == 2


def test_no_raw_copy_is_kept_after_a_swap() -> None:
    ema = LitEma(network())
    with ema.scope():
        assert ema.raw_state()["2.bias"].data_ptr() != ema._source.tensors()["2.bias"].data_ptr()
    assert ema.raw_state()["2.bias"].data_ptr() == ema._source.tensors()["2.bias"].data_ptr()
    assert ema._raw is None
