"""What a network for inpainting sees beside the noisy latents: a mask, and the latents of what is not masked."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ldm.diffusion.draws import BatchDraws
from ldm.errors import Fault
from ldm.transfers import to_device

Mask = Callable[[BatchDraws, int, int], Tensor]
"""`mask(draws, height, width)`: (b, 1, height, width), 1 where the network has to make something up."""
KEPT = "concat"


class Surrounded(Protocol):
    """The side of a diffusion model that is asked here; `ldm.models.diffusion.ddpm.LatentDiffusion` is one."""

    first_stage_key: str
    first_stage_model: Any
    image_size: int

    @property
    def device(self) -> torch.device: ...

    def draws(self, batch: Mapping[str, Any]) -> BatchDraws: ...

    def scaled(self, z: Tensor) -> Tensor: ...


def surroundings(model: Surrounded, batch: dict[str, Any], mask: Mask) -> Tensor:
    """Mask and scaled latents of the masked pictures: (b, 1 + z, h/f, w/f). Kept in the batch for a second look.

    A mask of the data that says what has to be made up (`ldm.diffusion.masks.GivenMasks`) is taken out of the batch,
    where it would say which errors count.
    """
    if KEPT not in batch:
        if model.first_stage_key not in batch:
            raise Fault("CFG03", "inpainting needs the pictures themselves", why="the batch holds cached latents only")
        pictures = batch[model.first_stage_key].movedim(-1, 1)
        given = batch.pop("mask", None) if getattr(mask, "from_data", False) else None
        drawn = mask(model.draws(batch), *pictures.shape[-2:]) if given is None else given[:, None].round()
        masks = to_device(drawn, pictures.device).to(pictures)
        batch[KEPT] = _joined(model, pictures * (1 - masks), masks)
    kept: Tensor = batch[KEPT]
    return kept


def nothing_around(model: Surrounded, count: int) -> Tensor:
    """The same, (count, 1 + z, h/f, w/f), where all of a picture is masked, for samples of captions alone."""
    side = model.image_size * model.first_stage_model.downsampling
    grey = torch.zeros(1, 3, side, side, device=model.device)
    return _joined(model, grey, grey[:, :1] + 1).expand(count, -1, -1, -1)


@torch.no_grad()
def _joined(model: Surrounded, pictures: Tensor, masks: Tensor) -> Tensor:
    mean = model.first_stage_model.encode_moments(pictures).chunk(2, dim=1)[0]
    return torch.cat([F.interpolate(masks, mean.shape[-2:]), model.scaled(mean)], dim=1)
