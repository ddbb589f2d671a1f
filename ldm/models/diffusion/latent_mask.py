"""Masks of pictures at the scale of what is noised."""

from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d


def latent_mask(mask: Tensor | None, x0: Tensor) -> Tensor | None:
    """(b, H, W) in pixels to (b, 1, h, w) like x0: each latent counts as the mean of the pixels that it stands for."""
    if mask is None:
        return None
    return adaptive_avg_pool2d(mask[:, None].float().to(x0.device), (x0.shape[-2], x0.shape[-1]))
