"""Stable Diffusion 3's conditioning: up to three text encoders (Esser et al. 2024, arXiv 2403.03206, fig. 2)."""

from collections.abc import Mapping
from contextlib import nullcontext
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.errors import Fault
from ldm.families.facts import Unconditional
from ldm.families.sd3 import SD3 as FAMILY
from ldm.families.whole_checkpoint import open_checkpoint
from ldm.files.load import load_part
from ldm.files.state import State
from ldm.files.weights_location import require_one_start
from ldm.keys.text_encoders import BELOW, PROJECTION
from ldm.modules.encoders.captions import Caption, of_encoder
from ldm.modules.encoders.chunks import count_chunks
from ldm.modules.encoders.clip import CLIP_L_CONFIG
from ldm.modules.encoders.conditioner import EncoderSlice
from ldm.modules.encoders.encoder_files import (
    EncoderPaths,
    EncoderPlace,
    Places,
    given_paths,
    require_all,
    require_places,
    with_own_files,
)
from ldm.modules.encoders.openclip import BIG_G, PADDING
from ldm.modules.encoders.t5 import T5Text, vocabulary_folder
from ldm.modules.encoders.tokenizer import BUILT_IN, END, clip_tokenizer
from ldm.modules.encoders.tokens import WHERE, CaptionTokens
from ldm.modules.meta_init import is_meta_init, meta_init
from ldm.modules.offload import computes_on
from ldm.transfers import to_device

SD3 = "stabilityai/stable-diffusion-3.5-medium"
PLACES = 77
"""Tokens that either CLIP reads at once."""
PUBLISHED: Mapping[str, Any] = MappingProxyType({})
ENCODERS = {encoder.setting: encoder.prefix.split(".")[1] for encoder in FAMILY.encoders}
"""{setting: name in memory and in files}: clip_l, clip_g, t5xxl"""
ENCODER_PLACES: Places = MappingProxyType(
    {
        setting: EncoderPlace(name, encoder)
        for (setting, name), encoder in zip(ENCODERS.items(), FAMILY.encoders, strict=True)
    }
)


class SD3Conditioner(nn.Module):
    """CLIP ViT-L and OpenCLIP ViT-bigG up to their last layer but one, side by side; after them T5's last states.

    An encoder that is null is absent: zeros stand in its place, as many as it would give. No network sees a mask, so
    that what fills captions up counts: lengths should be those of the weights.

    version           folder of a pipeline, or a hub id; read only where nothing else gives weights
    unconditional     what stands for a dropped caption, in training, in samples and in exports: the encoded
                      `empty caption`, as pipelines have it, or `zeros`
    max_length        tokens a caption for both CLIPs; 150, 225, ... read one in chunks, see `FrozenCLIPEmbedder`
    t5_length         tokens a caption for T5
    tokenizer         of both CLIPs: `built-in`, or a folder or hub id that has CLIP's vocabulary
    tokenizer_3       of T5: folder or hub id of a pipeline, or of the tokenizer alone
    ckpt_path         a whole checkpoint, or {clip, open_clip, t5: a file or folder of that encoder alone}; encoders
                      that have none of their own come from the model's checkpoint
    clip, open_clip   arguments of `transformers.CLIPTextConfig` that differ from the encoders' own; null: absent
    t5                arguments of `transformers.T5Config` that differ from T5 v1.1 XXL's; null: absent
    context_dim       width of what the network attends to where T5, whose width it is, is absent
    from_scratch  begin with random weights, where nothing else gives any
    """

    disk_prefix = "text_encoders."
    text_encoder_count = len(ENCODERS)
    encoder_places = ENCODER_PLACES
    library_modules = tuple(f"{name}.transformer" for name in ENCODERS.values())

    def __init__(
        self,
        version: str = SD3,
        max_length: int = 77,
        t5_length: int = 256,
        tokenizer: str = BUILT_IN,
        tokenizer_3: str = SD3,
        from_scratch: bool = False,
        ckpt_path: str | EncoderPaths | None = None,
        clip: Mapping[str, Any] | None = PUBLISHED,
        open_clip: Mapping[str, Any] | None = PUBLISHED,
        t5: Mapping[str, Any] | None = PUBLISHED,
        context_dim: int = 4096,
        unconditional: Unconditional = "empty caption",
    ) -> None:
        super().__init__()
        require_one_start(from_scratch, ckpt_path)
        if clip is None and open_clip is None and t5 is None:
            where = "model.params.cond_stage_config.params"
            raise Fault("CFG08", "all three text encoders are null", where=where, why="nothing would read the captions")
        self.unconditional = unconditional
        self.from_scratch = from_scratch
        self.loaded_from: str | None = None
        loads = not (from_scratch or is_meta_init())
        with meta_init() if loads else nullcontext():
            tokens: tuple[int, str] = (max_length, tokenizer)
            self.clip_l = None if clip is None else ProjectedCLIP({**CLIP_L_CONFIG, **clip}, "quick_gelu", END, *tokens)
            self.clip_g = None if open_clip is None else ProjectedCLIP({**BIG_G, **open_clip}, "gelu", PADDING, *tokens)
            self.t5xxl = None if t5 is None else T5Text(tokenizer_3, t5_length, t5)
        chunks = count_chunks(max_length, PLACES, WHERE)
        self.rows = (max_length if chunks == 1 else PLACES * chunks, t5_length)
        sizes = ((self.clip_l, CLIP_L_CONFIG["hidden_size"]), (self.clip_g, BIG_G["hidden_size"]))
        self.widths = [encoder.width if encoder else width for encoder, width in sizes]
        self.vectors = [encoder.vector if encoder else width for encoder, width in sizes]
        self.context_dim = self.t5xxl.width if self.t5xxl else context_dim
        self._report_once()
        require_places(ckpt_path, ENCODER_PLACES, [*self.shares()])
        if loads:
            self._load(ckpt_path, version)

    def forward(self, captions: list[Caption]) -> Conditioning:
        """context (b, tokens of the CLIPs + t5_length, context_dim); pooled (b, both widths)."""
        clips = (self.clip_l, self.clip_g)
        words = [of_encoder(captions, place) for place in range(self.text_encoder_count)]
        both = [self._of_clip(encoder, place, words[place]) for place, encoder in enumerate(clips)]
        states = torch.cat([states for states, _ in both], dim=-1)
        pooled = torch.cat([vector for _, vector in both], dim=-1)
        states = F.pad(states, (0, self.context_dim - states.shape[-1]))
        return Conditioning(torch.cat([states, self._of_t5(words[-1], states)], dim=1), pooled)

    def _load(self, ckpt_path: str | EncoderPaths | None, version: str) -> None:
        apart = given_paths(ckpt_path, ENCODER_PLACES)
        whole = ckpt_path if isinstance(ckpt_path, str) else version
        source = ", ".join(apart.values()) or whole
        state = with_own_files({}, apart, ENCODER_PLACES) if apart else open_checkpoint(whole).read().cond_stage
        require_all(state, [*self.shares()], ENCODER_PLACES, source)
        load_part(self, state, source)
        self.loaded_from = source

    @staticmethod
    def require_files(params: Mapping[str, Any]) -> None:
        """Raise `Fault` MOD01 if an encoder of these arguments would find no vocabulary of T5's."""
        if params.get("t5", PUBLISHED) is not None:
            vocabulary_folder(params.get("tokenizer_3", SD3))

    def idle(self) -> list[nn.Module]:
        """Nothing: the vectors come from what lies beyond the states that are read."""
        return []

    def computing_parts(self) -> tuple[nn.Module, ...]:
        """The modules whose forward passes make up this one's: both CLIPs as they are, T5 block by block."""
        t5 = self.t5xxl.computing_parts() if self.t5xxl is not None else ()
        return (*(clip for clip in (self.clip_l, self.clip_g) if clip is not None), *t5)

    def shares(self) -> dict[str, list[EncoderSlice]]:
        """{setting of an encoder: where in the conditioning lies what it gives}."""
        rows = slice(0, self.rows[0])
        width, vector = self.widths[0], self.vectors[0]
        ends = slice(width, width + self.widths[1]), slice(vector, None)
        parts = {
            "clip": [EncoderSlice("context", rows, slice(0, width)), EncoderSlice("pooled", None, slice(0, vector))],
            "open_clip": [EncoderSlice("context", rows, ends[0]), EncoderSlice("pooled", None, ends[1])],
            "t5": [EncoderSlice("context", slice(self.rows[0], None), slice(None))],
        }
        return {setting: parts[setting] for setting, name in ENCODERS.items() if getattr(self, name) is not None}

    def to_disk(self, state: State) -> State:
        """This module's keys to those of single files (`clip_l.transformer...`), without `text_encoders.`."""
        return self._each(state, "to_disk")

    def from_disk(self, state: State) -> State:
        """Those of single files, or this module's own, to this module's own."""
        return self._each(state, "from_disk")

    def _each(self, state: State, direction: str) -> State:
        result: State = {}
        rest = dict(state)
        for name in ENCODERS.values():
            own = {key.removeprefix(f"{name}."): rest.pop(key) for key in state if key.startswith(f"{name}.")}
            encoder = getattr(self, name)
            renamed = getattr(encoder, direction)(own) if own and encoder else own
            result |= {f"{name}.{key}": value for key, value in renamed.items()}
        return result | rest

    def _of_clip(self, encoder: "ProjectedCLIP | None", place: int, captions: list[str]) -> tuple[Tensor, Tensor]:
        if encoder is not None:
            states, vector = encoder(captions)
            return states, vector
        like, device, count = next(self.parameters()), computes_on(self), len(captions)
        states = like.new_zeros(count, self.rows[0], self.widths[place], device=device)
        return states, like.new_zeros(count, self.vectors[place], device=device)

    def _of_t5(self, captions: list[str], states: Tensor) -> Tensor:
        if self.t5xxl is None:
            return states.new_zeros(len(captions), self.rows[1], self.context_dim)
        return self.t5xxl(captions).to(states.dtype)

    def _report_once(self) -> None:
        """The encoder that reads most of a caption says how many are cut."""
        reading = [encoder.tokens for encoder in (self.t5xxl, self.clip_l, self.clip_g) if encoder is not None]
        for tokens in reading[1:]:
            tokens.report.done = True


class ProjectedCLIP(nn.Module):
    """A text encoder of CLIP's, with the projection of its vector, under transformers' names.

    config      arguments of `transformers.CLIPTextConfig`
    activation  what transformers calls the network's non-linearity, where `config` does not say it
    padding     the token that fills captions up
    """

    token_table = "transformer.text_model.embeddings.token_embedding"

    def __init__(
        self, config: Mapping[str, Any], activation: str, padding: int, max_length: int, tokenizer: str
    ) -> None:
        from transformers import CLIPTextConfig, CLIPTextModelWithProjection

        super().__init__()
        marks = {"eos_token_id": END}  # by it the vector is found; files that say 2 mean the largest token
        usual = {"hidden_act": activation, "projection_dim": config["hidden_size"]}
        settings = CLIPTextConfig(**{**usual, **config, **marks})
        self.width = int(settings.hidden_size)
        self.vector = int(settings.projection_dim)
        self.tokenizer = clip_tokenizer(tokenizer, max_length)
        self.tokens = CaptionTokens(self.tokenizer, max_length, settings.max_position_embeddings, padding)
        self.transformer = CLIPTextModelWithProjection(settings)

    def forward(self, captions: list[str]) -> tuple[Tensor, Tensor]:
        """States (b, max_length, width), or (b, 77 chunks, width), and vectors (b, width), of the first chunk."""
        tokens = to_device(self.tokens(captions), self.transformer.device)
        output = self.transformer(tokens, output_hidden_states=True)
        return self.tokens.joined(output.hidden_states[-2]), self.tokens.first(output.text_embeds)

    def to_disk(self, state: State) -> State:
        """The names on disk are transformers'."""
        return state

    def from_disk(self, state: State) -> State:
        """transformers' names of any of its versions; where a file has no projection, one that changes nothing."""
        own: State = {}
        for key, value in state.items():
            name = key.removeprefix("transformer.").removeprefix(BELOW)
            if not name.endswith("position_ids"):
                own["transformer." + (name if name == PROJECTION else BELOW + name)] = value
        whole = any(key.endswith("embeddings.token_embedding.weight") for key in own)
        if whole and f"transformer.{PROJECTION}" not in own:
            like = next(iter(own.values()))
            own[f"transformer.{PROJECTION}"] = torch.eye(self.vector, self.width, device=like.device, dtype=like.dtype)
        return own
