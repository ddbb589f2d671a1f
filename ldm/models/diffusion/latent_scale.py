"""Latents as the network sees them, `scale (z - shift)`: the one owner of both numbers and of the way back."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.models.pixels import on_device

log = logging.getLogger(__name__)
Factor = float | Sequence[float]


class ScalesLatents(nn.Module):
    """A model of latents: its buffers `scale_factor` and `shift_factor`, () or (channels, 1, 1), float32."""

    scale_factor: Tensor
    shift_factor: Tensor

    def set_scale(self, scale: Factor, shift: Factor, channels: int, measured: bool) -> None:
        """Register both; one number stands for all channels. Raises `Fault` CFG03 for what no latent is scaled by.

        measured  the scale comes from the first batch, see `measure_scale_factor`; it is stored then, as CompVis does
        """
        # NaN means: not measured yet.
        factor = torch.tensor(math.nan) if measured else _checked("scale_factor", scale, channels)
        if not measured and bool((factor == 0).any()):
            raise Fault("CFG03", "scale_factor is 0", where="model.params.scale_factor", why="nothing would be left")
        self.register_buffer("scale_factor", factor, persistent=measured)
        self.register_buffer("shift_factor", _checked("shift_factor", shift, channels), persistent=False)
        self._is_shifted = bool(self.shift_factor.any())  # most families' are not, which no device has to subtract

    def scaled(self, z: Tensor) -> Tensor:
        """What the network sees of latents z (b, c, h, w) of the first stage, in their dtype."""
        shifted = z - self.shift_factor.to(z.dtype) if self._is_shifted else z
        return shifted * self.scale_factor.to(z.dtype)

    def unscaled(self, x0: Tensor) -> Tensor:
        """The first stage's latents of x0 (b, c, h, w)."""
        return x0 / self.scale_factor.to(x0.dtype) + self.shift_factor.to(x0.dtype)


def _checked(name: str, value: Factor, channels: int) -> Tensor:
    each = isinstance(value, Sequence)
    factor = torch.tensor(value, dtype=torch.float32)
    where = f"model.params.{name}"
    if not factor.isfinite().all():
        raise Fault("CFG03", f"{name} is {value}", where=where, why="it has to be finite")
    if each and len(factor) != channels:
        raise Fault(
            "CFG03",
            f"{name} has {len(factor)} numbers",
            where=where,
            why=f"latents have {channels} channels",
            fix="one number for all of them, or one for each",
        )
    return factor.view(-1, 1, 1) if each else factor


@torch.no_grad()
def measure_scale_factor(model: Any) -> None:
    """Set `model.scale_factor` to 1 / standard deviation of the first batch's latents (rank 0's, for all ranks)."""
    batch = on_device(model, next(iter(model.trainer.datamodule.train_dataloader())))
    model.scale_factor.fill_(1.0)
    latents = model.encode(batch, model.draws(batch))
    model.scale_factor.fill_(model.trainer.strategy.broadcast(1.0 / latents.std().item()))
    log.info("scale_factor %.5f, measured on the first batch", model.scale_factor.item())


def library_scale(model: ScalesLatents) -> dict[str, Any]:
    """The same in the words of diffusers' `AutoencoderKL`; {} where the scale has not been measured yet.

    Numbers of each channel are its `latents_mean` and `latents_std`, with which `scaling_factor` is 1.
    """
    scale, shift = model.scale_factor, model.shift_factor
    if scale.isnan().any():
        return {}
    if scale.ndim == shift.ndim == 0:
        shifted = {"shift_factor": shift.item()} if shift.item() else {}
        return {"scaling_factor": scale.item(), **shifted}
    scale, shift = torch.broadcast_tensors(scale.view(-1), shift.view(-1))
    return {"scaling_factor": 1.0, "latents_mean": shift.tolist(), "latents_std": (1 / scale).tolist()}


def scale_of_library(config: Mapping[str, Any]) -> tuple[Factor, Factor]:
    """`scale_factor` and `shift_factor` of `LatentDiffusion` from the arguments of diffusers' `AutoencoderKL`."""
    scale, mean, std = config["scaling_factor"], config.get("latents_mean"), config.get("latents_std")
    if mean is None or std is None:
        return scale, config.get("shift_factor") or 0.0
    return [scale / one for one in std], list(mean)
