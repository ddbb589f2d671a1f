"""`lightning.pytorch.LightningModule` as a base of models (see `ldm.lightning_classes`); imports torch."""

import itertools
from typing import TYPE_CHECKING

import torch
from torch import nn

__all__ = ["LightningModule"]

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule
else:

    class LightningModule(nn.Module):
        """A module that computes, is read and written; Lightning's, once a Trainer has it."""

        stands_for = "lightning.pytorch.core.module.LightningModule"
        automatic_optimization = True

        @property
        def device(self):
            """Where its first weight or buffer is."""
            held = next(itertools.chain(self.parameters(), self.buffers()), None)
            return torch.device("cpu") if held is None else held.device
