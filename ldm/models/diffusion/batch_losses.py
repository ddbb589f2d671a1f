"""The losses of a batch as its examples ask for them: masks, weights, noise levels, and whose output is the target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ldm.adapters.switching import without_adapters
from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.objective import Losses
from ldm.models.diffusion.latent_mask import latent_mask
from ldm.transfers import to_device

PRIOR = "prior"
"""The `kind` of an example that the network is to go on treating as its base does."""


def batch_losses(model: Any, x0: Tensor, cond: Conditioning, draws: BatchDraws, batch: Mapping[str, Any]) -> Losses:
    """Losses of a diffusion model for x0 (b, c, h, w), as `mask`, `weight`, `timesteps` and `kind` of the batch say."""
    prior = [row for row, kind in enumerate(batch.get("kind", ())) if kind == PRIOR]
    of_base = BaseTargets(model, prior, _of_base(model, cond, draws, batch, x0)) if prior else None
    mask = latent_mask(batch.get("mask"), x0)
    return model.objective(model.model, x0, cond, draws, mask, batch.get("weight"), batch.get("timesteps"), of_base)


@dataclass(frozen=True)
class BaseTargets:
    """Targets of which `rows` are what the network gives without its adapters, from the same noise, time and caption.

    So that what is learned elsewhere leaves it as it was there: prior preservation by the network's own output, as
    OneTrainer's prior prediction, in place of pictures that were drawn with it (Ruiz et al. 2022, arXiv 2208.12242).
    """

    model: Any
    rows: Sequence[int]
    cond: Conditioning

    def __call__(self, targets: Tensor, x_t: Tensor, clock: Tensor) -> Tensor:
        """`targets` (b, c, h, w) with those rows replaced; x_t (b, c, h, w) and clock (b,) are the network's input."""
        rows = to_device(torch.tensor(self.rows), x_t.device)
        chosen = self.cond.map(lambda tensor: tensor[rows.to(tensor.device)])
        with without_adapters(self.model.model):
            output = self.model.model(x_t[rows], clock[rows.to(clock.device)], chosen)
        return targets.index_copy(0, rows, output.to(targets.dtype))


def _of_base(model: Any, cond: Conditioning, draws: BatchDraws, batch: Mapping[str, Any], x0: Tensor) -> Conditioning:
    """The conditioning as it was before a text encoder was trained, with the same captions dropped."""
    if not getattr(model, "text_encoder_trains", False):
        return cond
    with without_adapters(model.cond_stage_model):
        before: Conditioning = model.condition(batch, draws, x0)
    return before
