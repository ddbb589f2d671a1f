"""A text encoder of a family: where it lies in a file, in a folder, and how to get from one to the other."""

from dataclasses import dataclass
from typing import Literal

import torch

from ldm.files.state import State
from ldm.keys.split_checkpoint import below
from ldm.keys.text_encoders import (
    BELOW,
    LOG_100,
    LOGIT_SCALE,
    OPEN_CLIP_PROJECTION,
    PROJECTION,
    open_clip_from_transformers,
    stand_ins,
    transformers_from_open_clip,
)

POSITIONS = BELOW + "embeddings.position_ids"


@dataclass(frozen=True)
class Encoder:
    """One text encoder of a family.

    folder      its folder in a pipeline; the tokenizer's is named alike
    prefix      of its tensors in a CompVis file
    spelling    whose names a file uses below the prefix
    shortened   the pipeline does without the last layer and the projection
    activation  what transformers calls the network's non-linearity
    pad         the token that fills up captions
    """

    folder: str
    prefix: str
    spelling: Literal["clip", "open_clip"]
    activation: str
    pad: str
    shortened: bool = False

    @property
    def tokenizer(self) -> str:
        return self.folder.replace("text_encoder", "tokenizer")

    @property
    def projects(self) -> bool:
        return self.spelling == "open_clip" and not self.shortened

    def to_transformers(self, state: State) -> State:
        """This encoder out of a whole file, under transformers' names without `text_model.`; {} if it is not there.

        Tensors for which transformers has no place are left out: see `unplaced`.
        """
        own = below(state, self.prefix)
        if self.spelling == "open_clip":
            return transformers_from_open_clip(own, self._to_shorten(own))[0] if own else {}
        named = {key.removeprefix(BELOW): value for key, value in own.items()}
        return {key: value for key, value in named.items() if not key.endswith("position_ids")}

    def unplaced(self, state: State) -> State:
        """Tensors of this encoder that a pipeline's folder has no place for, under their names in the whole file."""
        own = below(state, self.prefix)
        if self.spelling == "open_clip":
            left = transformers_from_open_clip(own, self._to_shorten(own))[1] if own else {}
        else:
            left = {key: value for key, value in own.items() if key.endswith("position_ids")}
        return {self.prefix + key: value for key, value in left.items()}

    def to_compvis(self, state: State) -> State:
        """transformers' tensors, below `text_model` or not, under their names in a whole file."""
        if self.spelling == "open_clip":
            named = open_clip_from_transformers(state)
        else:
            bare = {key.removeprefix(BELOW): value for key, value in state.items()}
            named = {BELOW + key: value for key, value in bare.items() if not key.endswith("position_ids")}
        return {self.prefix + key: value for key, value in named.items()}

    def absent(self, state: State) -> State:
        """What a complete file has of this encoder and `state`, a whole file, has not: tensors that follow from others
        or that nothing reads."""
        own = below(state, self.prefix)
        if not own:
            return {}
        if self.spelling == "clip":
            places = own[BELOW + "embeddings.position_embedding.weight"].shape[0]
            made: State = {POSITIONS: torch.arange(places)[None]}
        elif self.shortened:
            made = stand_ins(own, own["positional_embedding"].shape[1]) if self._is_short(own) else {}
        else:
            made = {LOGIT_SCALE: torch.tensor(LOG_100)}
        return {self.prefix + key: value for key, value in made.items() if key not in own}

    def _to_shorten(self, own: State) -> bool:
        return self.shortened and not self._is_short(own)

    def _is_short(self, own: State) -> bool:
        """Whether a file was made from a shortened encoder: the projection went together with the last layer."""
        return OPEN_CLIP_PROJECTION not in own

    def for_folder(self, state: State) -> State:
        """transformers' tensors under the names that every version of it reads.

        Today's own `save_pretrained` leaves `text_model.` out, and older versions then keep random weights.
        """
        return {key if key == PROJECTION else BELOW + key: value for key, value in state.items()}
