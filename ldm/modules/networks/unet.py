"""diffusers' UNet behind the project's calling convention, with weights from and to any Stable Diffusion layout."""

import inspect
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from diffusers import UNet2DConditionModel
from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.errors import Fault
from ldm.files.load import load_part
from ldm.files.state import State
from ldm.files.weights_location import architecture, find_source, require_one_start
from ldm.keys.split_checkpoint import UNET, part_of
from ldm.keys.table import KeyTable
from ldm.keys.unet import compvis_unet_names
from ldm.modules.meta_init import is_meta_init, meta_init


class UNet(nn.Module):
    """`network(x_t, clock, cond)` over `diffusers.UNet2DConditionModel`, whose arguments `config` takes.

    ckpt_path               a diffusers folder (its config.json counts where `config` is silent), a pipeline's folder,
                            or a file with CompVis' keys, of the network alone or of a whole checkpoint
    gradient_checkpointing  compute activations twice instead of keeping them: less memory, about a third slower
    """

    accepts = "diffusers.UNet2DConditionModel"
    library_modules = ("network",)

    def __init__(
        self,
        from_scratch: bool = False,
        ckpt_path: str | None = None,
        gradient_checkpointing: bool = False,
        **config: Any,
    ) -> None:
        super().__init__()
        refuse_unknown(UNet2DConditionModel, config)
        require_one_start(from_scratch, ckpt_path)
        source = find_source(ckpt_path, "unet") if ckpt_path and not is_meta_init() else None
        stored = source.config if source else architecture(ckpt_path, "unet") if ckpt_path else {}
        self.from_scratch = from_scratch
        self.loaded_from: str | None = None
        with meta_init() if source else nullcontext():
            self.network = _build(config, stored)
        self.table = KeyTable(compvis_unet_names(self.network.state_dict()), attribute="network")
        self.attends = any(".attn2." in key for key in self.network.state_dict())
        if source:
            load_part(self, part_of(source.read(), UNET), source=str(ckpt_path))
            self.loaded_from = ckpt_path
        if gradient_checkpointing:
            self.network.enable_gradient_checkpointing()

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

    def to_disk(self, state: State) -> State:
        """This module's keys to CompVis' (`input_blocks.0.0.weight`), without `model.diffusion_model.`."""
        return self.table.to_disk(state)

    def from_disk(self, state: State) -> State:
        """CompVis' keys, diffusers' or this module's own to this module's own."""
        return self.table.from_disk(state)


def _build(config: Mapping[str, Any], stored: Mapping[str, Any]) -> Any:  # the library's class is opaque to mypy
    if stored:
        return UNet2DConditionModel.from_config({**stored, **config})
    return UNet2DConditionModel(**config)


def refuse_unknown(library: type, config: Mapping[str, Any]) -> None:
    """Raise `Fault` CFG03 for a setting that the library's network does not take."""
    known = inspect.signature(library).parameters
    if unknown := [name for name in config if name not in known]:
        raise Fault(
            "CFG03",
            f"unknown setting {unknown[0]}",
            where="model.params.unet_config.params",
            why=f"diffusers.{library.__name__} takes: {', '.join(known)}",
        )
