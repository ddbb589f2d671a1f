"""A picture in patches, each with its place by a table of sines and cosines (Esser et al. 2024, arXiv 2403.03206)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.transfers import to_device

if TYPE_CHECKING:
    from diffusers.models.embeddings import PatchEmbed


class PlacedPatches(nn.Module):
    """Takes the place of diffusers' `PatchEmbed`, with the same tensors.

    The table `pos_embed` (1, side^2, width) stays float32 whatever the network's precision. A picture takes a window of
    it as large as itself: around the centre, or at `place` (b, 2), the share in [0, 1) of the way that its upper left
    corner can go down and to the right. `place` holds for one call.
    """

    pos_embed: Tensor

    def __init__(self, patches: "PatchEmbed") -> None:
        super().__init__()
        self.side = int(patches.pos_embed_max_size)
        self.patch_size = int(patches.patch_size)
        self.base_size = int(patches.base_size)
        self.proj: nn.Conv2d = patches.proj
        self.place: Tensor | None = None
        self.register_buffer("pos_embed", patches.pos_embed)

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) to (b, patches, width)."""
        embedded = self.proj(x).flatten(2).transpose(1, 2)
        window = self.window(x.shape[-2] // self.patch_size, x.shape[-1] // self.patch_size)
        placed: Tensor = (embedded + window).to(embedded.dtype)
        return placed

    def window(self, height: int, width: int) -> Tensor:
        """Positions of (height, width) patches: (1 or b, patches, width of the network)."""
        table = self.pos_embed.view(self.side, self.side, -1)
        place, self.place = self.place, None
        if place is None:
            top, left = (self.side - height) // 2, (self.side - width) // 2
            return table[top : top + height, left : left + width].reshape(1, height * width, -1)
        room = torch.tensor([self.side - height + 1, self.side - width + 1])
        corners = to_device((place.cpu().double() * room).long(), table.device)
        rows = corners[:, :1] + torch.arange(height, device=table.device)
        columns = corners[:, 1:] + torch.arange(width, device=table.device)
        return table[rows[:, :, None], columns[:, None, :]].flatten(1, 2)

    def require_sides(self, height: int, width: int) -> None:
        """Raise `Fault` CFG08 for sides of what is noised that are no whole patches, or too long for the table."""
        longest = self.side * self.patch_size
        if height % self.patch_size == 0 and width % self.patch_size == 0 and max(height, width) <= longest:
            return
        raise Fault(
            "CFG08",
            f"latents of {width} x {height} cannot be cut into patches",
            where="data.params.train.params.size",
            why=f"sides have to be multiples of {self.patch_size} and at most {longest}",
            fix="pictures whose sides are multiples of 16 pixels, such as 512, 768 or 1024",
        )

    def table(self, device: torch.device) -> Tensor:
        """The table as it follows from its size: (1, side^2, width) float32."""
        from diffusers.models.embeddings import get_2d_sincos_pos_embed

        with device:
            width = self.pos_embed.shape[-1]
            made = get_2d_sincos_pos_embed(width, self.side, base_size=self.base_size, output_type="pt")
        return made.float().unsqueeze(0)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "PlacedPatches":
        # Follow the network to its device, but not to its half precision.
        table = self.pos_embed
        super()._apply(fn, recurse)
        if self.pos_embed.dtype != torch.float32:
            self.pos_embed = table.to(self.pos_embed.device)
        return self
