"""Names in `log_images_kwargs`."""

import pytest

from ldm.errors import Fault
from lun.previews.options import OWN, PLOTTED, UNDERSTOOD, at_least_one, chosen, for_model, known


def test_every_name_of_an_old_config_is_accepted():
    options = dict.fromkeys(UNDERSTOOD + OWN + PLOTTED, 1) | {"return_keys": ["samples"]}
    assert known(options) == options


def test_an_unknown_name_is_a_fault_with_a_suggestion():
    with pytest.raises(Fault) as caught:
        known({"ddim_step": 25})
    assert caught.value.id == "CFG03" and "ddim_steps" in caught.value.fix


def test_a_model_with_a_plain_signature_gets_only_what_it_names():
    def log_images(batch, split, N=4, plot_denoise_rows=False): ...

    options = {"N": 2, "ddim_steps": 3, "plot_denoise_rows": True, "n_row": 4}
    assert for_model(options, log_images) == {"N": 2, "plot_denoise_rows": True}


def test_a_model_that_takes_anything_gets_only_what_every_model_knows():
    def log_images(batch, split, **kwargs): ...

    options = {"N": 2, "ddim_steps": 3, "plot_denoise_rows": False, "n_row": 4, "use_ema_scope": False}
    assert for_model(options, log_images) == {"N": 2, "ddim_steps": 3}


@pytest.mark.parametrize("name", PLOTTED)
def test_a_picture_that_a_model_does_not_draw_is_refused_when_asked_for_and_only_then(name):
    def log_images(batch, split, N=4): ...

    assert for_model({"N": 2, name: False}, log_images) == {"N": 2}
    with pytest.raises(Fault, match=f"this model draws nothing for log_images_kwargs.{name}"):
        for_model({name: True}, log_images)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, ["inputs", "samples"]),
        ({"return_keys": ["samples", "mask"]}, ["samples"]),
        ({"return_keys": ["mask"]}, ["inputs", "samples"]),
        ({"only_inputs": True}, ["inputs"]),
        ({"only_inputs": False}, ["inputs", "samples"]),
    ],
)
def test_only_the_pictures_that_are_asked_for_are_shown(options, shown):
    assert list(chosen({"inputs": 1, "samples": 2}, options)) == shown


def test_a_frequency_of_zero_is_a_fault_that_says_how_to_draw_nothing():
    with pytest.raises(Fault, match="disabled=true"):
        at_least_one("batch_frequency", 0)
