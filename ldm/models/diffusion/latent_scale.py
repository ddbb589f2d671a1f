"""The factor that brings latents to unit variance, measured where a config asks for it (CompVis' `scale_by_std`)."""

import logging
from typing import Any

import torch

log = logging.getLogger(__name__)


@torch.no_grad()
def measure_scale_factor(model: Any) -> None:
    """Set `model.scale_factor` to 1 / standard deviation of the first batch's latents (rank 0's, for all ranks)."""
    batch = next(iter(model.trainer.datamodule.train_dataloader()))
    model.scale_factor.fill_(1.0)
    source = "moments" if "moments" in batch else model.first_stage_key
    latents = model.encode({**batch, source: batch[source].to(model.device)}, model.draws(batch))
    model.scale_factor.fill_(model.trainer.strategy.broadcast(1.0 / latents.std().item()))
    log.info("scale_factor %.5f, measured on the first batch", model.scale_factor.item())
