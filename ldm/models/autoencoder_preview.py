"""Pictures of an autoencoder for people: inputs, reconstructions, differences and decoded noise."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor

from ldm.diffusion.draws import BatchDraws
from ldm.ema.lit_ema import LitEma
from ldm.errors import Fault
from ldm.modules.posterior import Posterior


class PreviewedAutoencoder(Protocol):
    """The side of an autoencoder that pictures are drawn from; `ldm.models.autoencoder.AutoencoderKL` is one."""

    model_ema: LitEma | None

    def draws(self, batch: Mapping[str, Any]) -> BatchDraws: ...

    def pictures(self, batch: Mapping[str, Any]) -> Tensor: ...

    def encode_moments(self, x: Tensor) -> Tensor: ...

    def decode(self, z: Tensor) -> Tensor: ...

    def ema_scope(self) -> AbstractContextManager[None]: ...


def log_images(
    model: PreviewedAutoencoder, batch: dict[str, Any], count: int, sample: bool, averaged: bool
) -> dict[str, Tensor]:
    """Of the first `count` pictures of a batch, each (n, 3, h, w) in about [-1, 1]:

    inputs, reconstructions of their most likely latents, the differences (grey is none), decoded noise if `sample`,
    and, with an EMA and `averaged`, the reconstructions by the averaged weights.
    """
    few = {name: value[:count] for name, value in batch.items()}
    real = model.pictures(few)
    made, latents = most_likely(model, real)
    shown = {"inputs": real, "reconstructions": made, "difference": (made - real).clamp(-1, 1)}
    if sample:
        noise = model.draws(few).normal("samples", latents.shape[1:]).to(latents)
        shown["samples"] = model.decode(noise).float()
    if averaged and model.model_ema is not None and not model.model_ema.swapped:
        with model.ema_scope():
            shown["reconstructions_ema"] = most_likely(model, real)[0]
    return shown


def most_likely(model: PreviewedAutoencoder, real: Tensor) -> tuple[Tensor, Tensor]:
    """Pictures encoded without noise and decoded, and the latents between: (b, 3, h, w) and (b, z, h/f, w/f)."""
    latents = Posterior.of(model.encode_moments(real)).mean
    return model.decode(latents).float(), latents


def no_prompts() -> Fault:
    return Fault(
        "CFG08",
        "an autoencoder draws no prompts",
        where="lightning.callbacks.image_logger.params.prompts",
        fix="'lightning.callbacks.image_logger.params.prompts=[]'",
    )
