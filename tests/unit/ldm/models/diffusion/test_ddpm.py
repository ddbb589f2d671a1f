"""DDPM and LatentDiffusion without a Trainer."""

from typing import Any

import pytest
import torch
from support.models import tiny_config, tiny_model

from ldm.models.diffusion.ddpm import DDPM, LatentDiffusion
from ldm.util import instantiate_from_config

Batch = dict[str, Any]


def test_networks_appear_when_they_are_configured_and_only_once() -> None:
    model = tiny_model()
    assert list(model.parameters()) == []
    model.configure_model()
    first = model.model
    model.configure_model()
    assert first is not None and model.model is first


def test_the_same_seed_gives_the_same_initial_weights_whatever_was_drawn_before(model: LatentDiffusion) -> None:
    torch.rand(5)
    again = tiny_model()
    again.configure_model()
    pairs = zip(model.parameters(), again.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_the_unet_trains_the_first_stage_does_not_and_the_text_encoder_if_asked(model: LatentDiffusion) -> None:
    assert {p.requires_grad for p in model.model.parameters()} == {True}  # type: ignore[union-attr]
    assert {p.requires_grad for p in model.first_stage_model.parameters()} == {False}
    assert {p.requires_grad for p in model.cond_stage_model.parameters()} == {True}
    frozen = tiny_model(cond_stage_trainable=False)
    frozen.configure_model()
    assert {p.requires_grad for p in frozen.cond_stage_model.parameters()} == {False}


def test_frozen_parts_are_in_evaluation_mode_as_soon_as_they_are_built() -> None:
    """Lightning trains a model in the mode that it finds, and T5 has dropout."""
    model = tiny_model(cond_stage_trainable=False)
    model.configure_model()
    assert model.training and model.model is not None and model.model.training
    assert not any(part.training for part in (*model.cond_stage_model.modules(), *model.first_stage_model.modules()))


def test_frozen_parts_stay_in_evaluation_mode(model: LatentDiffusion) -> None:
    model.train()
    assert model.model.training and not model.first_stage_model.training  # type: ignore[union-attr]
    assert model.cond_stage_model.training


def test_latents_are_a_scaled_sample_keyed_by_slot(model: LatentDiffusion, batch: Batch) -> None:
    whole = model.encode(batch, model.draws(batch))
    assert whole.shape == (3, 4, 4, 4)
    last = {name: value[2:] for name, value in batch.items()}
    torch.testing.assert_close(model.encode(last, model.draws(last)), whole[2:], atol=1e-5, rtol=0)
    model.scale_factor.fill_(0.5)
    assert torch.equal(model.encode(batch, model.draws(batch)), 0.5 * whole)


def test_stored_moments_stand_in_for_the_picture(model: LatentDiffusion, batch: Batch) -> None:
    moments = model.first_stage_model.encode_moments(batch["image"].movedim(-1, 1))
    cached = {"moments": moments, "slot": batch["slot"]}
    assert torch.equal(model.encode(cached, model.draws(cached)), model.encode(batch, model.draws(batch)))


def test_validation_never_meets_the_draws_of_training(model: LatentDiffusion, batch: Batch) -> None:
    training = model.train().draws(batch).normal("noise", (2,))
    validation = model.eval().draws(batch).normal("noise", (2,))
    assert not torch.equal(training, validation)


def test_every_trained_part_gets_a_gradient_and_no_frozen_one(model: LatentDiffusion, batch: Batch) -> None:
    draws = model.draws(batch)
    losses = model.losses(x0 := model.encode(batch, draws), model.condition(batch, draws, x0), draws, batch)
    assert losses.weighted.shape == (3,)
    losses.weighted.mean().backward()
    assert all(p.grad is not None for p in model.model.parameters())  # type: ignore[union-attr]
    assert all(p.grad is None for p in model.first_stage_model.parameters())
    assert any(p.grad is not None for p in model.cond_stage_model.parameters())


def test_names_on_disk_are_those_of_compvis_and_come_back(model: LatentDiffusion) -> None:
    state = dict(model.state_dict())
    disk = model.to_disk(state)
    assert "model.diffusion_model.input_blocks.0.0.weight" in disk
    assert "first_stage_model.encoder.conv_in.weight" in disk
    back = model.from_disk(disk)
    assert back.keys() == state.keys()
    assert all(torch.equal(back[name], state[name]) for name in state)


def test_what_a_checkpoint_holds_loads_back_with_and_without_averaged_weights(model: LatentDiffusion) -> None:
    checkpoint: dict[str, Any] = {"state_dict": dict(model.state_dict())}
    model.on_save_checkpoint(checkpoint)
    assert "model.diffusion_model.input_blocks.0.0.weight" in checkpoint["state_dict"]
    model.on_load_checkpoint(checkpoint)
    model.load_state_dict(checkpoint["state_dict"], strict=True)


def test_a_measured_scale_factor_is_stored_and_a_given_one_is_not() -> None:
    assert "scale_factor" in tiny_model(scale_by_std=True).state_dict()
    assert "scale_factor" not in tiny_model(scale_factor=0.18215).state_dict()


def test_the_schedule_brings_no_settings_back_from_a_checkpoint(model: LatentDiffusion) -> None:
    model.scheduler_config = {"target": "ldm.lr_scheduler.WarmupCosine", "params": {"total_steps": 10}}
    schedule = model.configure_optimizers()["lr_scheduler"]["scheduler"]
    assert set(schedule.state_dict()["lr_lambdas"]) == {None}


@pytest.mark.parametrize("trainable", [True, False])
def test_the_text_encoder_trains_at_its_own_multiple_of_the_rate(batch: Batch, trainable: bool) -> None:
    model = tiny_model(cond_stage_trainable=trainable, cond_stage_lr_multiple=0.25, scheduler_config=None)
    model.configure_model()
    model.learning_rate = 8e-3
    optimizer = model.configure_optimizers()["optimizer"]
    assert [group["lr"] for group in optimizer.param_groups] == ([8e-3, 2e-3] if trainable else [8e-3])
    before = [p.detach().clone() for p in model.cond_stage_model.parameters()]
    draws = model.draws(batch)
    model.losses(
        x0 := model.encode(batch, draws), model.condition(batch, draws, x0), draws, batch
    ).weighted.mean().backward()
    optimizer.step()
    after = list(model.cond_stage_model.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True)) is trainable


def test_a_pixel_model_sees_pictures_as_they_are(batch: Batch) -> None:
    params = {k: v for k, v in tiny_config()["params"].items() if k in ("unet_config", "linear_start", "linear_end")}
    unet = params["unet_config"]["params"] | {"in_channels": 3, "out_channels": 3, "sample_size": 8}
    unet |= {"down_block_types": ["DownBlock2D"] * 2, "up_block_types": ["UpBlock2D"] * 2, "mid_block_type": None}
    params["unet_config"] = {**params["unet_config"], "params": unet}
    config = {"target": "ldm.models.diffusion.ddpm.DDPM", "params": params | {"image_size": 8}}
    model: DDPM = instantiate_from_config(config)
    model.configure_model()
    draws = model.draws(batch)
    x0 = model.encode(batch, draws)
    assert torch.equal(x0, batch["image"].movedim(-1, 1))
    assert model.decode(x0) is x0 and model.unconditional([""] * 3) is None
    assert model.losses(x0, model.condition(batch, draws, x0), draws, batch).simple.isfinite().all()


@pytest.mark.parametrize("name", ["timesteps", "linear_start", "parameterization", "loss_type"])
def test_compvis_spelling_reaches_the_objective(name: str) -> None:
    other = {"timesteps": 10, "linear_start": 0.01, "parameterization": "v", "loss_type": "l1"}[name]
    plain, changed = tiny_model().objective, tiny_model(**{name: other}).objective
    seen = {
        "timesteps": lambda o: o.path.timesteps,
        "linear_start": lambda o: o.path.betas[0].item(),
        "parameterization": lambda o: o.prediction,
        "loss_type": lambda o: o.loss,
    }[name]
    assert seen(plain) != seen(changed)


def test_a_recipe_of_the_objective_keeps_what_compvis_spelling_says() -> None:
    recipe = {
        "target": "ldm.diffusion.objective.Objective",
        "params": {"noise": {"target": "ldm.diffusion.noise.Offset"}},
    }
    objective = tiny_model(objective=recipe, loss_type="l1", timesteps=10).objective
    plain = tiny_model(loss_type="l1", timesteps=10).objective
    assert (objective.loss, objective.path.betas.tolist()) == (plain.loss, plain.path.betas.tolist())
    assert objective.noise != plain.noise
