"""Captions to the tokens that an encoder reads, all at once or in chunks, and what it gives back in one piece."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from ldm.modules.encoders.added_tokens import AddedTokens
from ldm.modules.encoders.chunks import LengthReport, chunked, count_chunks
from ldm.modules.encoders.tokenizer import END, SIZE, START, fitted, plain

if TYPE_CHECKING:
    from transformers import CLIPTokenizer

WHERE = "model.params.cond_stage_config.params.max_length"


class CaptionTokens:
    """Tokens of captions, up to `max_length` of each, for an encoder that has so many `places`; see `count_chunks`.

    padding  the token that fills captions up
    added    words of one's own, which count as the tokens of their vectors
    """

    def __init__(self, tokenizer: "CLIPTokenizer", max_length: int, places: int, padding: int) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.padding = padding
        self.added = AddedTokens(SIZE, self._is_known)
        self.chunks = count_chunks(max_length, places, WHERE)
        self.report = LengthReport(max_length if self.chunks > 1 else max_length - 2, places)

    def __call__(self, captions: Sequence[str]) -> Tensor:
        """(b, max_length), or (b chunks, 77): the chunks of a caption one after the other."""
        if not self.report.done:
            self.report.see([len(ids) for ids in self.ids(captions)])
        if self.chunks > 1:
            return chunked(captions, self.chunks, self.ids, START, END, self.padding).flatten(0, 1)
        return fitted(self.ids(captions), self.max_length, self.padding)

    def joined(self, states: Tensor) -> Tensor:
        """The states of a caption's chunks side by side: (b chunks, length, width) to (b, chunks length, width)."""
        return states.reshape(len(states) // self.chunks, -1, states.shape[-1])

    def first(self, vectors: Tensor) -> Tensor:
        """(b chunks, width) to (b, width): those of each caption's first chunk.

        As kohya's scripts (`pool2[::n_size]` in `get_hidden_states_sdxl`) and A1111's web UI (`zs[0].pooled`) do it.
        """
        return vectors[:: self.chunks]

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of texts of any length, without start and end."""
        return self.added.ids(plain(texts), self._of_vocabulary)

    def _of_vocabulary(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self.tokenizer(list(texts), add_special_tokens=False, verbose=False).input_ids
        return ids

    def _is_known(self, word: str) -> bool:
        return len(self._of_vocabulary([word])[0]) == 1
