"""A text encoder of hashed words: no vocabulary, no download, a few thousand useful parameters."""

import re
from collections.abc import Sequence
from zlib import crc32

import torch
from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.files.load import load_part
from ldm.files.state import State
from ldm.files.weights_location import find_source, require_one_start
from ldm.keys.split_checkpoint import COND_STAGE, part_of
from ldm.modules.encoders.added_tokens import AddedTokens
from ldm.modules.encoders.chunks import require_length
from ldm.modules.meta_init import is_meta_init
from ldm.transfers import to_device

NO_WORD = 0
BETWEEN_WORDS = re.compile(r"\W+")


class WordTokens:
    """The buckets of a text's words, the same on every machine.

    added   words of one's own, which have vectors and no bucket
    """

    def __init__(self, buckets: int) -> None:
        self.buckets = buckets
        self.added = AddedTokens(buckets)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """One id for each word, of any number of them."""
        return self.added.ids(texts, self._hashed)

    def _hashed(self, texts: Sequence[str]) -> list[list[int]]:
        return [[crc32(word.encode()) % (self.buckets - 1) + 1 for word in words(text)] for text in texts]


class HashedWordEmbedder(nn.Module):
    """Each word of a caption becomes the learned vector of its hash, plus that of its place.

    dim         width of a token
    max_length  tokens a caption; the rest is cut off, places without a word hold the vector of `NO_WORD`
    buckets     different vectors; words that share a bucket have one vector
    from_scratch  begin with random weights, where nothing else gives any
    ckpt_path  a file or folder to take the weights from
    """

    token_table = "embedding"

    def __init__(
        self,
        dim: int = 64,
        max_length: int = 8,
        buckets: int = 1024,
        from_scratch: bool = False,
        ckpt_path: str | None = None,
    ) -> None:
        super().__init__()
        require_one_start(from_scratch, ckpt_path)
        require_length(max_length)
        self.max_length = max_length
        self.buckets = buckets
        self.from_scratch = from_scratch
        self.loaded_from: str | None = None
        self.tokens = WordTokens(buckets)
        self.embedding = nn.Embedding(buckets, dim)
        self.position = nn.Parameter(0.02 * torch.randn(max_length, dim))
        self.norm = nn.LayerNorm(dim)
        if ckpt_path and not is_meta_init():
            load_part(self, part_of(find_source(ckpt_path, "text_encoder").read(), COND_STAGE), ckpt_path)
            self.loaded_from = ckpt_path

    def forward(self, captions: list[str]) -> Conditioning:
        """context: (b, max_length, dim)."""
        tokens = to_device(self.tokenize(captions), self.position.device)
        return Conditioning(context=self.norm(self.embedding(tokens) + self.position))

    def tokenize(self, captions: list[str]) -> Tensor:
        """Bucket of each word, the same on every machine: (b, max_length) int64."""
        rows = [row[: self.max_length] for row in self.tokens.ids(captions)]
        padded = [row + [NO_WORD] * (self.max_length - len(row)) for row in rows]
        return torch.tensor(padded, dtype=torch.int64).view(-1, self.max_length)

    def to_disk(self, state: State) -> State:
        """The names on disk are the module's own."""
        return state

    def from_disk(self, state: State) -> State:
        return state


def words(caption: str) -> list[str]:
    """The words of a caption in lower case, without punctuation."""
    return [word for word in BETWEEN_WORDS.split(caption.lower()) if word]
