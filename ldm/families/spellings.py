"""How files name the tensors of a kind of text encoder, and which network of transformers they are."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ldm.families.infer_config import t5_config, text_config
from ldm.files.state import State
from ldm.keys.text_encoders import (
    BELOW,
    LOG_100,
    LOGIT_SCALE,
    OPEN_CLIP_PROJECTION,
    PROJECTION,
    T5_EMBEDDED,
    T5_SHARED,
    open_clip_from_transformers,
    stand_ins,
    transformers_from_open_clip,
)

POSITIONS = BELOW + "embeddings.position_ids"


class Spelling(Protocol):
    """The way between a single file's names, without the encoder's prefix, and those that transformers has today.

    library          class of transformers that holds such an encoder
    tokenizer        class of transformers that makes its tokens
    ships_tokenizer  its vocabulary is a part of this program
    """

    @property
    def library(self) -> str: ...

    @property
    def tokenizer(self) -> str: ...

    @property
    def ships_tokenizer(self) -> bool: ...

    def to_transformers(self, own: State) -> tuple[State, State]:
        """The file's tensors under transformers' names, and those for which it has no place under the file's."""

    def to_file(self, state: State) -> State:
        """transformers' tensors, of any of its versions, under the file's names."""

    def for_folder(self, state: State) -> State:
        """transformers' tensors of today under the names that every version of it reads."""

    def absent(self, own: State) -> State:
        """What a complete file has and `own` has not: tensors that follow from others or that nothing reads."""

    def config(self, state: State) -> dict[str, Any]:
        """Arguments of the configuration of `library` for tensors under transformers' names."""


@dataclass(frozen=True)
class Clip:
    """transformers' names below `text_model.`, as files of Stable Diffusion 1.x, of XL and of 3 have CLIP.

    activation  what transformers calls the network's non-linearity
    projects    it gives a vector by a projection, whose matrix is `text_projection.weight`; files that come without one
                mean a projection that changes nothing
    positions   complete files hold the numbers of the places, which nothing reads
    """

    activation: str = "quick_gelu"
    projects: bool = False
    positions: bool = True
    tokenizer = "CLIPTokenizer"
    ships_tokenizer = True

    @property
    def library(self) -> str:
        return "CLIPTextModelWithProjection" if self.projects else "CLIPTextModel"

    def to_transformers(self, own: State) -> tuple[State, State]:
        counts = {key: value for key, value in own.items() if key.endswith("position_ids")}
        found = {key.removeprefix(BELOW): value for key, value in own.items() if key not in counts}
        return found | (self._projection(own) if PROJECTION not in found else {}), counts

    def to_file(self, state: State) -> State:
        bare = {key.removeprefix(BELOW): value for key, value in state.items()}
        return self.for_folder({key: value for key, value in bare.items() if not key.endswith("position_ids")})

    def for_folder(self, state: State) -> State:
        return {key if key == PROJECTION else BELOW + key: value for key, value in state.items()}

    def absent(self, own: State) -> State:
        if not self.positions:
            return self._projection(own)
        places = own[BELOW + "embeddings.position_embedding.weight"].shape[0]
        return {POSITIONS: torch.arange(places)[None]}

    def config(self, state: State) -> dict[str, Any]:
        return text_config(state, self.activation)

    def _projection(self, own: State) -> State:
        """The matrix of a projection that changes nothing; {} for an encoder without one."""
        last = own.get(BELOW + "final_layer_norm.weight")
        if not self.projects or last is None:
            return {}
        return {PROJECTION: torch.eye(last.shape[0], dtype=last.dtype, device=last.device)}


@dataclass(frozen=True)
class OpenClip:
    """open_clip's names, with query, key and value in one matrix.

    shortened  transformers' network does without the last layer and the projection, as Stable Diffusion 2.x uses it
    """

    activation: str = "gelu"
    shortened: bool = False
    tokenizer = "CLIPTokenizer"
    ships_tokenizer = True

    @property
    def library(self) -> str:
        return "CLIPTextModel" if self.shortened else "CLIPTextModelWithProjection"

    def to_transformers(self, own: State) -> tuple[State, State]:
        return transformers_from_open_clip(own, self.shortened and not self._is_short(own)) if own else ({}, {})

    def to_file(self, state: State) -> State:
        return open_clip_from_transformers(state)

    def for_folder(self, state: State) -> State:
        return {key if key == PROJECTION else BELOW + key: value for key, value in state.items()}

    def absent(self, own: State) -> State:
        if not self.shortened:
            return {LOGIT_SCALE: torch.tensor(LOG_100)}
        return stand_ins(own, own["positional_embedding"].shape[1]) if self._is_short(own) else {}

    def config(self, state: State) -> dict[str, Any]:
        return text_config(state, self.activation)

    def _is_short(self, own: State) -> bool:
        """Whether a file was made from a shortened encoder: the projection went together with the last layer."""
        return OPEN_CLIP_PROJECTION not in own


@dataclass(frozen=True)
class T5:
    """transformers' own names of T5's encoder (Raffel et al. 2020, arXiv 1910.10683).

    The table of tokens is one tensor that files name once or twice: `shared.weight`, `encoder.embed_tokens.weight`.
    """

    library = "T5EncoderModel"
    tokenizer = "T5TokenizerFast"
    ships_tokenizer = False

    def to_transformers(self, own: State) -> tuple[State, State]:
        again = {T5_EMBEDDED: own[T5_EMBEDDED]} if {T5_EMBEDDED, T5_SHARED} <= own.keys() else {}
        return self.to_file(own), again

    def to_file(self, state: State) -> State:
        found = {key: value for key, value in state.items() if key != T5_EMBEDDED}
        return found if T5_SHARED in state or T5_EMBEDDED not in state else found | {T5_SHARED: state[T5_EMBEDDED]}

    def for_folder(self, state: State) -> State:
        return state

    def absent(self, own: State) -> State:
        return {}

    def config(self, state: State) -> dict[str, Any]:
        return t5_config(state)
