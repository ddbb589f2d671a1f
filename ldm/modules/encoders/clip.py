"""CLIP's text encoder, which embeds captions for Stable Diffusion 1.x (Radford et al. 2021, arXiv 2103.00020)."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.files.hub import hub_folder
from ldm.files.load import load_part
from ldm.files.state import State
from ldm.files.weights_location import find_source, read_config, require_one_start
from ldm.keys.split_checkpoint import COND_STAGE, part_of
from ldm.keys.table import KeyTable
from ldm.keys.text_encoders import BELOW, compvis_clip_names, folder_clip_names
from ldm.modules.encoders.tokenizer import BUILT_IN, END, clip_tokenizer
from ldm.modules.encoders.tokens import CaptionTokens
from ldm.modules.meta_init import is_meta_init, meta_init
from ldm.transfers import to_device

if TYPE_CHECKING:
    from transformers import CLIPTextConfig

CLIP_L = "openai/clip-vit-large-patch14"
CLIP_L_CONFIG = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
NOT_ARCHITECTURE = ("architectures", "model_type", "torch_dtype", "dtype", "transformers_version")


class FrozenCLIPEmbedder(nn.Module):
    """Captions to the states of CLIP's last layer. Despite its name, what is frozen is its owner's decision.

    version     folder of the encoder or of a whole pipeline, or a hub id; gives architecture, and weights where no
                whole checkpoint gives them
    max_length  tokens a caption; longer ones are cut, shorter ones padded. 150, 225, ... read a caption in chunks of 75
                that end between tags, each with a start and an end of its own
    tokenizer   `built-in`, which needs no files, or a folder or hub id that has CLIP's vocabulary
    ckpt_path   a file or folder to take the weights from instead; of a whole checkpoint, its text encoder
    layer       `penultimate` leaves out the last layer but not the last norm ("clip skip 2"), `hidden` the norm as well
    config      arguments of `transformers.CLIPTextConfig` that differ from the version's, or from CLIP-L's for a hub id
                whose weights are not asked for
    from_scratch  begin with random weights, where nothing else gives any
    """

    library_modules = ("transformer",)
    token_table = "transformer.embeddings.token_embedding"

    def __init__(
        self,
        version: str = CLIP_L,
        max_length: int = 77,
        tokenizer: str = BUILT_IN,
        from_scratch: bool = False,
        ckpt_path: str | None = None,
        layer: Literal["last", "penultimate", "hidden"] = "last",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        from transformers import CLIPTextModel

        super().__init__()
        require_one_start(from_scratch, ckpt_path)
        self.max_length = max_length
        self.layer = layer
        self.from_scratch = from_scratch
        self.loaded_from: str | None = None
        self.tokenizer = clip_tokenizer(tokenizer, max_length)
        own_weights = not (from_scratch or is_meta_init())
        home = _home(version, weights_needed=own_weights and not ckpt_path)
        weights = ckpt_path or str(home) if own_weights else None
        settings = _text_config(home, config or {})
        self.tokens = CaptionTokens(self.tokenizer, max_length, settings.max_position_embeddings, END)
        self.chunks = self.tokens.chunks
        with meta_init() if weights else nullcontext():
            self.transformer = CLIPTextModel(settings)
        keys = self.transformer.state_dict()
        self.table = KeyTable(compvis_clip_names(keys), "transformer", aliases=folder_clip_names(keys))
        if weights:
            self._load(weights)

    def forward(self, captions: list[str]) -> Conditioning:
        """context: (b, max_length, width), or (b, 77 chunks, width) where captions go in chunks."""
        return Conditioning(
            context=self.tokens.joined(self._states(to_device(self.tokens(captions), self.transformer.device)))
        )

    def _states(self, tokens: Tensor) -> Tensor:
        if self.layer == "last":
            last: Tensor = self.transformer(tokens).last_hidden_state
            return last
        states = self.transformer(tokens, output_hidden_states=True).hidden_states
        norm = self.transformer.final_layer_norm if self.layer == "penultimate" else nn.Identity()
        normed: Tensor = norm(states[-2])
        return normed

    def idle(self) -> list[nn.Module]:
        """What nothing that is returned depends on: no loss reaches it, so nobody should train it."""
        unread = {"last": (), "penultimate": ("layer",), "hidden": ("layer", "norm")}[self.layer]
        ends = {"layer": self.transformer.encoder.layers[-1], "norm": self.transformer.final_layer_norm}
        return [ends[name] for name in unread]

    def to_disk(self, state: State) -> State:
        """This module's keys to CompVis' (`transformer.text_model...`), without `cond_stage_model.`."""
        return self.table.to_disk(state)

    def from_disk(self, state: State) -> State:
        """CompVis' keys, transformers' or this module's own to this module's own, without older files' constants."""
        return self.table.from_disk({key: value for key, value in state.items() if not key.endswith(".position_ids")})

    def _load(self, weights: str) -> None:
        state = part_of(find_source(weights, "text_encoder").read(), COND_STAGE)
        if any(key.startswith("vision_model.") for key in state):  # the whole of CLIP, as the hub has it
            state = {key: value for key, value in state.items() if key.startswith(BELOW)}
        load_part(self, state, source=weights)
        self.loaded_from = weights


def _home(version: str, weights_needed: bool) -> Path | None:
    """The folder or file that `version` stands for; None for a hub id whose weights nobody needs."""
    if Path(version).exists():
        return Path(version)
    return hub_folder(version, needed=("model.safetensors",), wanted=("config.json",)) if weights_needed else None


def _text_config(home: Path | None, changes: Mapping[str, Any]) -> "CLIPTextConfig":
    """The architecture in a folder with `changes`; CLIP-L's where no folder says otherwise."""
    from transformers import CLIPTextConfig

    stored: dict[str, Any] = {}
    if home:
        folder = home / "text_encoder"
        stored = read_config(folder if folder.is_dir() else home)
        stored = stored.get("text_config", stored)
    stored = {key: value for key, value in stored.items() if key not in NOT_ARCHITECTURE}
    return CLIPTextConfig(**{**(stored or CLIP_L_CONFIG), **changes})
