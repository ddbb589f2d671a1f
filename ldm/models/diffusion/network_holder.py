"""The network of a diffusion model under the name that it has on disk."""

from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws


class DiffusionWrapper(nn.Module):
    """Holds the network under the name that it has had on disk since 2022, `model.diffusion_model`."""

    def __init__(self, diffusion_model: nn.Module) -> None:
        super().__init__()
        self.diffusion_model = diffusion_model

    def forward(self, x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        """The network's output (b, c, h, w) for x_t (b, c, h, w) at the clock t (b,)."""
        return self.diffusion_model(x_t, t, cond)

    def with_draws(self, cond: Conditioning, draws: BatchDraws) -> Conditioning:
        """`cond` with what the network itself draws for each example of training, if it is one that does."""
        drawing = getattr(self.diffusion_model, "with_draws", None)
        return cond if drawing is None else drawing(cond, draws)
