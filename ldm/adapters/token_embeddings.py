"""Vectors of one's own beside a text encoder's table of tokens (textual inversion, Gal et al. 2022, 2208.01618)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ldm.adapters.layer import KEEP
from ldm.errors import Fault
from ldm.modules.encoders.added_tokens import AddedTokens
from ldm.training.adapters import CHILD
from ldm.training.groups import named_layers

WHERE = "model.params.adapter_config.params.embeddings"


class Tokens(Protocol):
    """Captions to token ids, for an encoder that words can be added to."""

    added: AddedTokens

    def ids(self, texts: list[str]) -> list[list[int]]:
        """Token ids of each text, of any length, without marks of start and end."""


class AddedVectors(nn.Module):
    """The vectors (v, width) of one added word, in fp32: a parameter where they train.

    word     as captions write it
    length   that every vector has whatever is learned, so that only its direction is; None: vectors are what they are
    """

    keeps_float32 = True
    vectors: Tensor
    length: Tensor

    def __init__(self, word: str, vectors: Tensor, trains: bool = False, length: Tensor | None = None) -> None:
        super().__init__()
        self.word = word
        vectors = vectors.detach().clone().float()
        self.register_parameter("vectors", nn.Parameter(vectors)) if trains else self.register_buffer(
            "vectors", vectors
        )
        self.keeps_length = length is not None
        if length is not None:
            self.register_buffer("length", length.detach().float())

    @property
    def trains(self) -> bool:
        """Whether they are there to be learned, by whatever rules."""
        return isinstance(self.vectors, nn.Parameter)

    def forward(self) -> Tensor:
        """(v, width), fp32, as the encoder reads them."""
        return F.normalize(self.vectors, dim=1) * self.length if self.keeps_length else self.vectors

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Raises `Fault` RES05 for another number of vectors, or another width, than those that trained."""
        stored = state_dict.get(f"{prefix}vectors")
        if stored is not None and stored.shape != self.vectors.shape:
            shapes = f"{list(stored.shape)} in the checkpoint and {list(self.vectors.shape)} by the config"
            why = f"{prefix}vectors is {shapes}"
            raise Fault("RES05", "the embedding was trained with other settings", where=WHERE, why=why, fix=KEEP)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class TokenEmbedding(nn.Embedding):
    """A table of tokens whose ids go on with the vectors of its child; its own rows get no gradient from those.

    The child holds `AddedVectors` by the names of embeddings, in the order of their ids.
    """

    def forward(self, ids: Tensor) -> Tensor:
        """(...) int64 to (..., width), in the precision of the table."""
        own = torch.cat([vectors() for vectors in getattr(self, CHILD).children()])
        past = ids - self.num_embeddings
        rows = super().forward(ids.clamp(max=self.num_embeddings - 1))
        return torch.where((past >= 0).unsqueeze(-1), F.embedding(past.clamp(min=0), own).to(rows.dtype), rows)


@dataclass(frozen=True)
class TokenTable:
    """A text encoder's table of tokens, and the words that can be added to it.

    encoder   by which rules know the encoder: `text_encoder`, `text_encoder_2`
    parent, name   where the table lies
    """

    encoder: str
    tokens: Tokens
    parent: nn.Module
    name: str

    @property
    def table(self) -> nn.Embedding:
        table = getattr(self.parent, self.name)
        assert isinstance(table, nn.Embedding)
        return table

    @property
    def width(self) -> int:
        return self.table.embedding_dim

    def rows_of(self, text: str) -> Tensor:
        """(n, width) of the tokens of a text, n as many as it has; (0, width) on the meta device has no numbers."""
        ids = torch.tensor(self.tokens.ids([text])[0], dtype=torch.int64, device=self.table.weight.device)
        return self.table(ids).detach().float()

    def usual_length(self) -> Tensor:
        """The median of the lengths of the table's rows, a scalar."""
        return self.table.weight.detach().float().norm(dim=1).median()

    def add(self, name: str, vectors: AddedVectors, where: str) -> None:
        """Make vectors a child of the table, so that captions know their word. Raises as `AddedTokens.add`."""
        self.tokens.added.add(vectors.word, len(vectors.vectors), where)
        if not isinstance(self.table, TokenEmbedding):
            setattr(self.parent, self.name, _with_place_for_more(self.table))
        getattr(self.table, CHILD).add_module(name, vectors)

    def added(self) -> dict[str, AddedVectors]:
        """The vectors by the names of their embeddings."""
        children = getattr(self.table, CHILD, nn.Module()).named_children()
        return {name: child for name, child in children if isinstance(child, AddedVectors)}


def token_tables(networks: Mapping[str, nn.Module]) -> list[TokenTable]:
    """The tables of the encoders that words can be added to, by networks under their names in rules."""
    names = {id(layer): name for name, layer in named_layers(networks).items()}
    return list(_tables(networks, names))


def _tables(networks: Mapping[str, nn.Module], names: Mapping[int, str]) -> Iterator[TokenTable]:
    for network in networks.values():
        for encoder in network.modules():
            if path := getattr(encoder, "token_table", ""):
                parent, _, name = path.rpartition(".")
                inner = encoder.get_submodule(parent)
                encoder_name = names[id(getattr(inner, name))].partition(".")[0]
                yield TokenTable(encoder_name, encoder.tokens, inner, name)  # type: ignore[arg-type]


def _with_place_for_more(table: nn.Embedding) -> TokenEmbedding:
    """The same table, of the same weights, with a child for added vectors."""
    more = TokenEmbedding(table.num_embeddings, table.embedding_dim, table.padding_idx, _weight=table.weight)
    more.weight = table.weight
    more.train(table.training)
    setattr(more, CHILD, nn.Module())
    return more
