"""What counts as the same network."""

import pytest
import torch
from torch import nn

from lun.data.cache.shards.identity import identity


class Heads(nn.Module):
    def __init__(self, heads: int = 2, loaded_from: str = "a") -> None:
        super().__init__()
        self.heads = heads
        self.loaded_from = loaded_from
        self.inner = nn.Linear(2, 2)
        nn.init.ones_(self.inner.weight)
        nn.init.zeros_(self.inner.bias)


class Words:
    def __init__(self, *words: str) -> None:
        self.words = words

    def get_vocab(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}


def tokenizing(*words: str) -> Heads:
    made = Heads()
    made.tokenizer = Words(*words)
    return made


def test_a_copy_from_another_place_is_the_same():
    assert identity(Heads()) == identity(Heads(loaded_from="b").eval())
    assert identity(tokenizing("a", "b")) == identity(tokenizing("a", "b"))


def nudged() -> Heads:
    made = Heads()
    made.inner.weight.data[0, 0] += 1e-6
    return made


@pytest.mark.parametrize(
    "other",
    [lambda: Heads(heads=1), nudged, lambda: Heads().to(torch.float16), lambda: tokenizing("a")],
    ids=["a setting", "a weight", "precision", "a vocabulary"],
)
def test_what_computes_something_else_is_another(other):
    assert identity(Heads()) != identity(other())


def test_another_vocabulary_is_another():
    assert identity(tokenizing("a", "b")) != identity(tokenizing("b", "a"))
