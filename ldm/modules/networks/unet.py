"""diffusers' UNet behind the project's calling convention, with weights from and to any Stable Diffusion layout."""

from typing import Any

import torch
from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.errors import Fault
from ldm.files.state import State
from ldm.keys.table import KeyTable
from ldm.keys.unet import compvis_unet_names
from ldm.modules.networks.library_network import LibraryNetwork


class UNet(LibraryNetwork):
    """`network(x_t, clock, cond)` over `diffusers.UNet2DConditionModel`, whose arguments `config` takes.

    ckpt_path               a diffusers folder (its config.json counts where `config` is silent), a pipeline's folder,
                            or a file with CompVis' keys, of the network alone or of a whole checkpoint
    gradient_checkpointing  compute activations twice instead of keeping them: less memory, about a third slower
    from_scratch  begin with random weights, where nothing else gives any
    """

    accepts = "diffusers.UNet2DConditionModel"

    def __init__(
        self,
        from_scratch: bool = False,
        ckpt_path: str | None = None,
        gradient_checkpointing: bool = False,
        **config: Any,
    ) -> None:
        from diffusers import UNet2DConditionModel

        super().__init__(UNet2DConditionModel, "unet", _table, from_scratch, ckpt_path, gradient_checkpointing, config)
        self.attends = any(".attn2." in key for key in self.network.state_dict())

    @property
    def repeated_blocks(self) -> tuple[type[nn.Module], ...]:
        """The classes of its blocks: what is compiled, and never sharded further, as a whole."""
        from diffusers.models.attention import BasicTransformerBlock
        from diffusers.models.resnet import ResnetBlock2D

        return ResnetBlock2D, BasicTransformerBlock

    def forward(self, x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        """The network's prediction: (b, out_channels, h, w).

        x_t (b, c, h, w); t (b,) the time, int64 or float32; `cond.concat` joins the input's channels, `cond.context` is
        attended to, and `cond.pooled` and `cond.sizes` join the time embedding of networks that have a place for them
        (SDXL).
        """
        if self.attends and cond.context is None:
            raise Fault(
                "CFG03",
                "the UNet attends to a context, but nothing gives it one",
                where="model.params.unet_config",
                why=f"it was built with cross_attention_dim {self.network.config.cross_attention_dim}",
                fix="name a cond_stage_config, or choose blocks without cross-attention",
            )
        added = {"text_embeds": cond.pooled, "time_ids": cond.sizes} if cond.pooled is not None else None
        x = x_t if cond.concat is None else torch.cat([x_t, cond.concat], dim=1)
        return self.network(x, t, encoder_hidden_states=cond.context, added_cond_kwargs=added, return_dict=False)[0]


def _table(network: State) -> KeyTable:
    return KeyTable(compvis_unet_names(network), attribute="network")
