"""Names in `log_images_kwargs`."""

import pytest

from ldm.errors import Fault
from lun.callbacks.image_options import OLD, OWN, UNDERSTOOD, at_least_one, for_model, known


def test_every_name_of_an_old_config_is_accepted():
    options = dict.fromkeys(UNDERSTOOD + OWN + OLD, 1)
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

    options = {"N": 2, "ddim_steps": 3, "plot_denoise_rows": True, "n_row": 4, "use_ema_scope": False}
    assert for_model(options, log_images) == {"N": 2, "ddim_steps": 3}


def test_a_frequency_of_zero_is_a_fault_that_says_how_to_draw_nothing():
    with pytest.raises(Fault, match="disabled=true"):
        at_least_one("batch_frequency", 0)
