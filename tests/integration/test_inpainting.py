"""A network with nine input channels trains and samples."""

from collections.abc import Callable
from pathlib import Path

import torch
from support.compvis import config_of
from support.runs import TINY, load, newest_run

from ldm.diffusion.masks import GivenMasks, RandomRectangles
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.models.diffusion.inpainting import nothing_around, surroundings
from ldm.util import instantiate_from_config

INPAINTING = [
    "model.params.mask.target=ldm.diffusion.masks.RandomRectangles",
    "model.params.unet_config.params.in_channels=9",
]


def test_it_trains_validates_and_draws(lun: Callable[..., int], pictures: Path, tmp_path: Path) -> None:
    validation = ["data.params.validation.target=lun.data.local.Local", "data.params.validation.params.size=8"]
    images = "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger, params: {batch_frequency: 2, "
    images += "log_images_kwargs: {ddim_steps: 2, unconditional_guidance_scale: 3.0}}}"
    line = ["-t", *INPAINTING, *validation, images, "lightning.trainer.max_steps=2"]
    assert lun(*line, f"data.params.validation.params.data_root={pictures}") == 0
    run = newest_run(tmp_path / "logs")
    assert load(run / "checkpoints/last.ckpt")["global_step"] == 2
    assert list((run / "images/train").glob("samples*"))


def test_given_masks_say_what_is_made_up_and_not_where_errors_count(pictures: Path) -> None:
    model: LatentDiffusion = instantiate_from_config(config_of([TINY], pictures, *INPAINTING)["model"])
    model.configure_model()
    model.eval()
    model.mask = GivenMasks(RandomRectangles(all_share=1.0))
    left = torch.zeros(2, 8, 8)
    left[..., :4] = 1.0
    picture = torch.rand(2, 8, 8, 3) * 2 - 1
    batch = {"image": picture, "caption": ["a", "b"], "slot": torch.tensor([0, 1]), "mask": left}
    same = {**batch, "image": torch.where(left[..., None] > 0, 0.5, picture)}
    with torch.no_grad():
        told, other = model.condition(batch, None, torch.zeros(2, 4, 4, 4)), surroundings(model, same, model.mask)
        assert told.concat is not None and torch.equal(told.concat, other)
        assert torch.equal(told.concat[0, 0], torch.tensor([[1.0, 1.0, 0.0, 0.0]]).expand(4, 4))
        assert "mask" not in batch
        without = {name: value for name, value in same.items() if name not in ("mask", "concat")}
        assert torch.equal(surroundings(model, without, model.mask)[:, 0], torch.ones(2, 4, 4))


def test_what_it_sees_is_the_mask_and_the_latents_of_what_is_not_masked(pictures: Path) -> None:
    model: LatentDiffusion = instantiate_from_config(config_of([TINY], pictures, *INPAINTING)["model"])
    model.configure_model()
    model.eval()
    batch = {"image": torch.rand(2, 8, 8, 3) * 2 - 1, "caption": ["a", "b"], "slot": torch.tensor([0, 1])}
    mask = RandomRectangles(all_share=1.0)
    with torch.no_grad():
        seen = surroundings(model, dict(batch), mask)
        assert torch.equal(seen, surroundings(model, {**batch, "image": batch["image"] / 2}, mask))
        assert nothing_around(model, 2).shape == seen.shape
        assert torch.equal(seen[:, 0], torch.ones(2, 4, 4))
        seen = surroundings(model, dict(batch), lambda draws, height, width: torch.zeros(2, 1, height, width))
        mean = model.first_stage_model.encode_moments(batch["image"].movedim(-1, 1)).chunk(2, dim=1)[0]
    assert torch.equal(seen[:, 1:], mean * model.scale_factor)
