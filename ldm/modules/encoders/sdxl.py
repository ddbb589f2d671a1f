"""Stable Diffusion XL's conditioning: two encoders' states side by side, one pooled vector (arXiv 2307.01952)."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from ldm.diffusion.conditioning import Conditioning
from ldm.families.facts import Unconditional
from ldm.families.whole_checkpoint import open_checkpoint
from ldm.files.load import load_part
from ldm.files.state import State
from ldm.files.weights_location import require_one_start
from ldm.keys.split_checkpoint import CONDITIONER
from ldm.modules.encoders.captions import Caption, of_encoder
from ldm.modules.encoders.clip import FrozenCLIPEmbedder
from ldm.modules.encoders.conditioner import EncoderSlice
from ldm.modules.encoders.openclip import FrozenOpenCLIPEmbedder2
from ldm.modules.encoders.tokenizer import BUILT_IN
from ldm.modules.meta_init import is_meta_init, meta_init

SDXL = "stabilityai/stable-diffusion-xl-base-1.0"


class SDXLConditioner(nn.Module):
    """CLIP ViT-L and OpenCLIP ViT-bigG, each up to its last layer but one.

    version           folder of a pipeline, or a hub id; read only where nothing else gives weights
    unconditional     what stands for a dropped caption, in training, in samples and in exports: `zeros`, as
                      generative-models and diffusers have it, or the encoded `empty caption`, as kohya's scripts
    max_length        tokens a caption; 150, 225, ... read one in chunks, see `FrozenCLIPEmbedder`
    clip, open_clip   arguments of `transformers.CLIPTextConfig` that differ from the two encoders' own
    tokenizer  `built-in`, which needs no files, or a folder or hub id that has CLIP's vocabulary
    from_scratch  begin with random weights, where nothing else gives any
    ckpt_path  a whole checkpoint to take the weights of both from
    """

    disk_prefix = CONDITIONER
    joins_tensors = True
    takes_sizes = True
    text_encoder_count = 2
    library_modules = ("embedders.0.transformer", "embedders.1.transformer")

    def __init__(
        self,
        version: str = SDXL,
        max_length: int = 77,
        tokenizer: str = BUILT_IN,
        from_scratch: bool = False,
        ckpt_path: str | None = None,
        clip: Mapping[str, Any] | None = None,
        open_clip: Mapping[str, Any] | None = None,
        unconditional: Unconditional = "zeros",
    ) -> None:
        super().__init__()
        require_one_start(from_scratch, ckpt_path)
        self.unconditional = unconditional
        self.from_scratch = from_scratch
        self.loaded_from: str | None = None
        loads = not (from_scratch or is_meta_init())
        options: dict[str, Any] = {"max_length": max_length, "tokenizer": tokenizer, "from_scratch": True}
        with meta_init() if loads else nullcontext():
            first = FrozenCLIPEmbedder(layer="hidden", config=clip, **options)
            second = FrozenOpenCLIPEmbedder2(config=open_clip, **options)
        second.tokens.report.done = True  # the first says how many captions are cut
        self.embedders = nn.ModuleList([first, second])
        if loads:
            source = ckpt_path or version
            load_part(self, open_checkpoint(source).read().cond_stage, source)
            self.loaded_from = source

    def forward(self, captions: list[Caption]) -> Conditioning:
        """context (b, max_length, both widths), or (b, 77 chunks, both); pooled (b, width of the second)."""
        first, second = (embedder(of_encoder(captions, place)) for place, embedder in enumerate(self.embedders))
        return Conditioning(torch.cat([first.context, second.context], dim=-1), second.pooled)

    def shares(self) -> dict[str, list[EncoderSlice]]:
        """{setting of an encoder: where in the conditioning lies what it gives}."""
        first = self.embedders[0]
        assert isinstance(first, FrozenCLIPEmbedder)
        width = first.transformer.config.hidden_size
        return {
            "clip": [EncoderSlice("context", None, slice(0, width))],
            "open_clip": [EncoderSlice("context", None, slice(width, None)), EncoderSlice("pooled", None, slice(None))],
        }

    def idle(self) -> list[nn.Module]:
        """The first encoder's end, which no state comes from; the second's gives the vector."""
        first = self.embedders[0]
        assert isinstance(first, FrozenCLIPEmbedder)
        return first.idle()

    def to_disk(self, state: State) -> State:
        """This module's keys to those of XL's files (`embedders.1.model...`), without `conditioner.`."""
        return self._each(state, "to_disk")

    def from_disk(self, state: State) -> State:
        return self._each(state, "from_disk")

    def _each(self, state: State, direction: str) -> State:
        merged: State = {}
        rest = dict(state)
        for number, embedder in enumerate(self.embedders):
            prefix = f"embedders.{number}."
            own = {key.removeprefix(prefix): rest.pop(key) for key in state if key.startswith(prefix)}
            merged |= {prefix + key: value for key, value in getattr(embedder, direction)(own).items()} if own else {}
        return merged | rest
