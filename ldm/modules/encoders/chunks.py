"""Captions longer than CLIP's 75 tokens: in chunks that end between tags, each read by the encoder on its own."""

import logging
import re
import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ldm.errors import Fault

log = logging.getLogger(__name__)

CHUNK = 75
"""Tokens of a caption that fit between the encoder's start and end."""

BETWEEN = (re.compile(r"(?<=,)\s+"), re.compile(r"\s+"))
"""Where a caption may be cut: after a comma, and within what is longer than a chunk between words."""

Tokenize = Callable[[Sequence[str]], list[list[int]]]
"""Texts to token ids without start and end, of any length."""


def require_length(max_length: int) -> None:
    """Raise `Fault` CFG08 unless a caption has room for a word: at least one token."""
    if max_length < 1:
        raise Fault("CFG08", f"max_length of a text encoder cannot be {max_length}", why="it takes 1 or more")


def count_chunks(max_length: int, places: int, where: str) -> int:
    """How many chunks `max_length` tokens are; 1 for what an encoder of `places` takes at once.

    Raises `Fault` CFG03 for more than it takes that is no multiple of 75, CFG08 for none.
    """
    require_length(max_length)
    if max_length <= places:
        return 1
    if max_length % CHUNK:
        raise Fault(
            "CFG03",
            f"max_length={max_length} is more than the text encoder has places for",
            where=where,
            why=f"it was made for {places} tokens; longer captions go in chunks of {CHUNK}: 150, 225, 300, ...",
        )
    return max_length // CHUNK


def split(caption: str, tokenize: Tokenize) -> list[list[int]]:
    """The caption's tokens in chunks of at most 75, as few as its tags allow.

    The tokenizer never joins what whitespace divides, so the chunks together are the tokens of the whole.
    """
    chunks: list[list[int]] = [[]]
    for piece in _pieces(caption, tokenize, BETWEEN):
        if len(chunks[-1]) + len(piece) > CHUNK:
            chunks.append([])
        chunks[-1] += piece
    return chunks


def _pieces(text: str, tokenize: Tokenize, between: Sequence[re.Pattern[str]]) -> list[list[int]]:
    """Tokens that are not to be divided: of each tag, or of the words of a longer one, or 75 of a longer word."""
    if not between:
        tokens = tokenize([text])[0]
        return [tokens[first : first + CHUNK] for first in range(0, len(tokens), CHUNK)]
    pieces: list[list[int]] = []
    parts = [part for part in between[0].split(text) if part]
    for part, tokens in zip(parts, tokenize(parts) if parts else [], strict=True):
        pieces += [tokens] if len(tokens) <= CHUNK else _pieces(part, tokenize, between[1:])
    return pieces


def chunked(captions: Sequence[str], count: int, tokenize: Tokenize, start: int, end: int, pad: int) -> Tensor:
    """(b, count, 77) token ids: every chunk with start and end, padded; chunks beyond `count` are cut off."""
    rows = []
    for caption in captions:
        chunks = (split(caption, tokenize) + [[]] * count)[:count]
        rows.append([[start, *chunk, end] + [pad] * (CHUNK - len(chunk)) for chunk in chunks])
    return torch.tensor(rows, dtype=torch.int64)


class LengthReport:
    """Says once how many captions are cut, after the first `enough` of them; the empty caption does not count.

    limit   tokens that are kept of a caption, without start and end
    places  tokens that the encoder reads at once, with start and end
    setting, ends  by which more of them are kept, and how many marks of start and end it counts
    """

    def __init__(self, limit: int, places: int, enough: int = 256, setting: str = "max_length", ends: int = 2) -> None:
        self.limit = limit
        self.places = places
        self.setting = setting
        self.ends = ends
        self.enough = enough
        self.lengths: list[int] = []
        self.done = False

    def see(self, lengths: Sequence[int]) -> None:
        self.lengths += [length for length in lengths if length]
        if len(self.lengths) >= self.enough:
            self.done = True
            self._warn_if_cut()
            self.lengths = []

    def _warn_if_cut(self) -> None:
        cut = sum(length > self.limit for length in self.lengths)
        if not cut:
            return
        longest = max(self.lengths)
        needed = longest + self.ends if longest + self.ends <= self.places else -(-longest // CHUNK) * CHUNK
        log.warning(
            "warning[DAT07]: %.2g %% of captions are longer than %d tokens; the end is cut off (median %d, longest %d)",
            100 * cut / len(self.lengths),
            self.limit,
            statistics.median(self.lengths),
            longest,
        )
        log.warning("  fix:   model.params.cond_stage_config.params.%s=%d", self.setting, needed)
