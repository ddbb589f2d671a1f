"""Whole checkpoints taken apart."""

import pytest
import torch

from ldm.keys.split_checkpoint import FIRST_STAGE, UNET, part_of, split_parts

ONE = torch.ones(1)


def test_every_tensor_goes_to_its_part() -> None:
    names = ["model.diffusion_model.a", "first_stage_model.b", "cond_stage_model.c", "model_ema.d", "betas"]
    parts = split_parts(dict.fromkeys(names, ONE))
    assert [list(p) for p in (parts.unet, parts.first_stage, parts.cond_stage, parts.ema, parts.rest)] == [
        ["a"],
        ["b"],
        ["c"],
        ["d"],
        ["betas"],
    ]


@pytest.mark.parametrize("name", ["first_stage_model.a", "vae.a", "a"])
def test_a_part_is_found_in_a_whole_checkpoint_and_alone(name: str) -> None:
    assert list(part_of({name: ONE}, FIRST_STAGE)) == ["a"]


def test_a_part_comes_without_the_others() -> None:
    assert list(part_of({"model.diffusion_model.a": ONE, "first_stage_model.b": ONE}, UNET)) == ["a"]
