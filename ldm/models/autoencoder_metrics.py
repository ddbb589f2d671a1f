"""How well an autoencoder does: exact means over a validation, and statistics of its latents."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ldm.models.metrics import Metrics
from ldm.modules.posterior import Posterior
from ldm.transfers import in_double

LOGGED = (
    *("psnr", "ssim", "total_loss", "logvar", "kl_loss", "nll_loss", "rec_loss", "lpips"),
    *("g_loss", "d_weight", "d_weight_lost", "disc_factor", "disc_loss", "logits_real", "logits_fake"),
    *("scale_factor", "latent_*"),
)
"""What an autoencoder logs of itself: names and patterns."""


@dataclass(frozen=True)
class Reconstructed:
    """A batch of pictures and what the autoencoder made of them, for metrics of one's own (`ldm.models.metrics`).

    model      the autoencoder; `model.training` says whether this is a step of training
    batch      as the data module gave it
    x0         (b, 3, h, w) the pictures in [-1, 1]
    made       (b, 3, h, w) their reconstructions, without a graph
    posterior  of their latents, `mean` and `logvar` (b, z, h/f, w/f)
    """

    model: Any
    batch: Mapping[str, Any]
    x0: Tensor
    made: Tensor
    posterior: Posterior


def means(metrics: Metrics[Reconstructed], reconstructed: Reconstructed) -> dict[str, Tensor]:
    """The mean over the batch of each metric's numbers: scalars by name."""
    return {name: numbers.mean() for name, numbers in metrics(reconstructed).items()}


def psnr(real: Tensor, made: Tensor) -> Tensor:
    """Peak signal-to-noise ratio of each picture in dB, for values in [-1, 1]: (b, 3, h, w) twice to (b,)."""
    error = (made.float().clamp(-1, 1) - real.float()).square().mean(dim=(1, 2, 3))
    return 10 * torch.log10(4.0 / error.clamp(min=1e-10))


def ssim(real: Tensor, made: Tensor) -> Tensor:
    """Structural similarity of each picture (Wang et al. 2004), for values in [-1, 1]: (b, 3, h, w) twice to (b,)."""
    from torchmetrics.functional.image import structural_similarity_index_measure

    pair = (made.float().clamp(-1, 1), real.float())
    similarity = structural_similarity_index_measure(*pair, data_range=(-1.0, 1.0), reduction="none")
    return torch.as_tensor(similarity).reshape(len(real))


class Quality:
    """Sums over a validation, and the metrics that follow from them; the same on any number of ranks and batches."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._pictures = 0
        self._latents: Tensor | None = None

    def add(self, real: Tensor, made: Tensor, latents: Tensor, log: Mapping[str, Tensor]) -> None:
        """A batch: pictures and reconstructions (b, 3, h, w), sampled latents (b, z, h/f, w/f), means of it by name."""
        count = len(real)
        rows = {"psnr": psnr(real, made).sum(), "ssim": ssim(real, made).sum()}
        rows |= {name: value.float() * count for name, value in log.items()}
        self._pictures += count
        for name, value in rows.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
        channels = in_double(latents).movedim(1, 0).flatten(1)
        moments = torch.stack(
            [torch.full_like(channels[:, 0], channels.shape[1]), channels.sum(1), channels.square().sum(1)]
        )
        self._latents = moments if self._latents is None else self._latents + moments

    def metrics(self, reduce: Callable[..., Tensor]) -> dict[str, Tensor]:
        """Means by name, `latent_mean_<channel>`, `latent_std_<channel>` and the `scale_factor` that they suggest.

        `reduce(tensor, reduce_op="sum")` adds up over ranks.
        """
        if self._latents is None:
            return {}
        names = sorted(self._sums)
        values = torch.stack([self._sums[name] for name in names])
        totals = reduce(torch.cat([values, values.new_tensor([self._pictures])]), reduce_op="sum")
        means = dict(zip(names, totals[:-1] / totals[-1], strict=True))
        return means | latent_statistics(reduce(self._latents, reduce_op="sum"))


def latent_statistics(moments: Tensor) -> dict[str, Tensor]:
    """From count, sum and sum of squares of each channel, (3, z): means, standard deviations, 1 / that of all."""
    count, total, squares = moments
    mean = total / count
    deviation = (squares / count - mean.square()).clamp(min=0).sqrt()
    overall = (squares.sum() / count.sum() - (total.sum() / count.sum()).square()).clamp(min=0).sqrt()
    statistics = {f"latent_mean_{channel}": value.float() for channel, value in enumerate(mean)}
    statistics |= {f"latent_std_{channel}": value.float() for channel, value in enumerate(deviation)}
    return statistics | {"scale_factor": (1 / overall).float()}
