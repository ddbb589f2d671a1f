"""Pictures for people."""

from typing import Any

import torch

from ldm.models.diffusion.ddpm import LatentDiffusion


def test_a_sample_depends_on_its_prompt_and_seed_alone(model: LatentDiffusion) -> None:
    both = model.sample_prompts(["red a", "blue b"], [1, 2], steps=3, guidance=2.0)
    second = model.sample_prompts(["blue b"], [2], steps=3, guidance=2.0)
    assert both.shape == (2, 3, 8, 8)
    torch.testing.assert_close(both[1:], second, atol=1e-5, rtol=0)


def test_another_seed_or_prompt_gives_another_sample(model: LatentDiffusion) -> None:
    first, seed, prompt = (
        model.sample_prompts([text], [number], steps=2, guidance=2.0)
        for text, number in (("red a", 1), ("red a", 2), ("blue a", 1))
    )
    assert not torch.equal(first, seed) and not torch.equal(first, prompt)


def test_a_sample_has_the_size_and_the_solver_that_are_asked_for(model: LatentDiffusion) -> None:
    wide = model.sample_prompts(["red a"], [1], steps=2, sides=(4, 8))
    euler = model.sample_prompts(["red a"], [1], steps=2, sides=(4, 8), scheduler="euler")
    assert wide.shape == euler.shape == (1, 3, 8, 16) and not torch.equal(wide, euler)


def test_sampling_leaves_mode_and_random_state_alone(model: LatentDiffusion) -> None:
    model.train()
    before = torch.get_rng_state()
    model.sample_prompts(["red a"], [1], steps=2, guidance=2.0)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training and not model.first_stage_model.training


def test_the_first_examples_are_shown_as_they_came_and_as_the_first_stage_sees_them(
    model: LatentDiffusion, batch: dict[str, Any]
) -> None:
    shown = model.log_images(batch, N=2, sample=False)
    assert sorted(shown) == ["inputs", "reconstruction"]
    assert torch.equal(shown["inputs"], batch["image"][:2].movedim(-1, 1))
    assert shown["reconstruction"].shape == (2, 3, 8, 8)


def test_samples_of_captions_come_with_them_when_asked(model: LatentDiffusion, batch: dict[str, Any]) -> None:
    assert model.log_images(batch, N=2, ddim_steps=2)["samples"].shape == (2, 3, 8, 8)
