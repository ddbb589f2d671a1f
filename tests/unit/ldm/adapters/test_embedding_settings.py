"""What a config says of embeddings."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ldm.adapters import Adapters
from ldm.adapters.token_embeddings import token_tables
from ldm.errors import Fault
from ldm.modules.encoders.words import HashedWordEmbedder


def placed(**embeddings: Any) -> dict[str, Any]:
    networks: dict[str, nn.Module] = {"text_encoder": HashedWordEmbedder(dim=8)}
    Adapters(embeddings=embeddings)(networks, 1)
    return dict(token_tables(networks)[0].added())


def test_a_word_is_the_name_in_brackets_and_as_many_vectors_as_it_starts_from(tmp_path: Path) -> None:
    torch.save({"emb_params": torch.ones(3, 8)}, tmp_path / "three.pt")
    found = placed(
        one={"init": "red fox"},
        two={"file": str(tmp_path / "three.pt"), "token": "zks", "train": False},
        three={"file": str(tmp_path / "three.pt"), "vectors": 6},
        gone=None,
    )
    assert {name: (vectors.word, len(vectors.vectors), vectors.trains) for name, vectors in found.items()} == {
        "one": ("<one>", 2, True),
        "two": ("zks", 3, False),
        "three": ("<three>", 6, True),
    }


@pytest.mark.parametrize(
    ("embedding", "said"),
    [
        ("cat", "is no embedding"),
        ({}, "neither init nor file"),
        ({"init": "cat", "file": "a.pt"}, "both init and file"),
        ({"initt": "cat"}, "initt"),
        ({"init": "cat", "vectors": 0}, "vectors"),
        ({"init": "cat", "vectors": True}, "vectors"),
        ({"init": "cat", "vectors": "2"}, "vectors"),
        ({"init": "a red cat", "vectors": 2}, "starts from 3"),
        ({"init": " ,"}, "no word"),
        ({"init": 3}, "init"),
        ({"init": "cat", "train": False}, "train: false"),
        ({"init": "cat", "train": 1}, "train"),
        ({"init": "cat", "keep_norm": "mean"}, "keep_norm"),
        ({"init": "cat", "token": "two words"}, "single word"),
        ({"init": "cat", "token": None}, "token"),
        ({"file": "nowhere.pt"}, "nowhere.pt"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(embedding: Any, said: str) -> None:
    with pytest.raises(Fault, match="CFG0[38]|MOD01") as fault:
        placed(one=embedding)
    assert said in fault.value.what


@pytest.mark.parametrize("name", ["a.b", "", "forward", "training"])
def test_a_name_that_no_tensor_can_have_is_refused(name: str) -> None:
    with pytest.raises(Fault, match="CFG03"):
        placed(**{name: {"init": "cat"}})


def test_two_embeddings_with_one_word_and_a_model_without_words_are_refused() -> None:
    with pytest.raises(Fault, match="two embeddings"):
        placed(one={"init": "cat", "token": "zks"}, two={"init": "dog", "token": "ZKS"})
    with pytest.raises(Fault, match="no text encoder"):
        Adapters(embeddings={"one": {"init": "cat"}})({"unet": nn.Linear(2, 2)}, 1)
