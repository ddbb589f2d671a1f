"""One set of weights out of a checkpoint that holds two."""

import pytest
import torch

from ldm.errors import Fault
from ldm.keys.averaged import choose_weights, holds_average

RAW = {
    "model.diffusion_model.a.weight": torch.zeros(2, 3),
    "model.diffusion_model.b": torch.zeros(1),
    "first_stage_model.c": torch.zeros(1),
    "betas": torch.zeros(4),
}
AVERAGE = {
    "model_ema.diffusion_modelaweight": torch.ones(2, 3),
    "model_ema.diffusion_modelb": torch.ones(1),
    "model_ema.decay": torch.tensor(0.9),
    "model_ema.num_updates": torch.tensor(3),
}


def test_the_average_is_taken_where_there_is_one_and_the_rest_stays() -> None:
    choice = choose_weights(RAW | AVERAGE, None, "x.ckpt")
    assert choice.state.keys() == RAW.keys()
    assert choice.averaged == 2
    assert choice.kept == ()
    assert choice.state["model.diffusion_model.a.weight"].sum() == 6
    assert choice.state["first_stage_model.c"].sum() == 0


def test_the_raw_weights_are_taken_on_request_and_where_nothing_else_is() -> None:
    assert choose_weights(RAW | AVERAGE, False, "x").state["model.diffusion_model.b"] == 0
    assert choose_weights(RAW, None, "x").averaged == 0


def test_counters_alone_are_no_average() -> None:
    counters = {key: AVERAGE[key] for key in ("model_ema.decay", "model_ema.num_updates")}
    assert not holds_average(RAW | counters)
    assert choose_weights(RAW | counters, None, "x").state.keys() == RAW.keys()


def test_an_average_of_some_weights_leaves_the_raw_ones_for_the_others_and_names_them() -> None:
    part = {key: value for key, value in AVERAGE.items() if key != "model_ema.diffusion_modelb"}
    choice = choose_weights(RAW | part, True, "x")
    assert choice.kept == ("model.diffusion_model.b",)
    assert choice.averaged == 1


def test_an_average_that_is_not_there_cannot_be_asked_for() -> None:
    with pytest.raises(Fault, match=r"x\.ckpt holds no averaged \(EMA\) weights") as caught:
        choose_weights(RAW, True, "x.ckpt")
    assert caught.value.id == "MOD03"


def test_an_average_of_other_shapes_is_refused() -> None:
    with pytest.raises(Fault, match="do not fit its weights"):
        choose_weights(RAW | AVERAGE | {"model_ema.diffusion_modelb": torch.ones(7)}, None, "x")
