"""A text encoder with a layer that takes adapters."""

from typing import Any

from torch import nn

from ldm.diffusion.conditioning import Conditioning
from ldm.modules.encoders.words import HashedWordEmbedder


class LinearWords(HashedWordEmbedder):
    """Hashed words, then a linear layer."""

    def __init__(self, dim: int = 64, **params: Any) -> None:
        super().__init__(dim, **params)
        self.projection = nn.Linear(dim, dim)

    def forward(self, captions: list[str]) -> Conditioning:
        cond = super().forward(captions)
        return cond._replace(context=self.projection(cond.context))
