"""Vectors beside a table of tokens."""

from typing import Any

import pytest
import torch
from support.models import tiny_model
from torch import nn

from ldm.adapters import Adapters
from ldm.adapters.token_embeddings import token_tables
from ldm.errors import Fault
from ldm.modules.encoders.clip import FrozenCLIPEmbedder
from ldm.modules.encoders.openclip import FrozenOpenCLIPEmbedder
from ldm.modules.encoders.sd3 import SD3Conditioner
from ldm.modules.encoders.sdxl import SDXLConditioner
from ldm.modules.encoders.words import HashedWordEmbedder

SMALL = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
OTHER = {**SMALL, "hidden_size": 12, "num_attention_heads": 3, "projection_dim": 12, "eos_token_id": 2}
ENCODERS: dict[str, Any] = {
    "words": lambda: HashedWordEmbedder(dim=8),
    "sd1": lambda: FrozenCLIPEmbedder(config=SMALL, from_scratch=True),
    "sd2": lambda: FrozenOpenCLIPEmbedder(config=SMALL, from_scratch=True),
    "sdxl": lambda: SDXLConditioner(clip=SMALL, open_clip=OTHER, from_scratch=True),
    "sd3": lambda: SD3Conditioner(clip=SMALL, open_clip=OTHER, t5=None, context_dim=24, from_scratch=True),
}
TABLES = {"words": [8], "sd1": [8], "sd2": [8], "sdxl": [8, 12], "sd3": [8, 12]}


def with_words(encoder: nn.Module, **embeddings: Any) -> nn.Module:
    Adapters(embeddings=embeddings)({"text_encoder": encoder}, 1)
    return encoder


@pytest.fixture(scope="module")
def encoders() -> dict[str, nn.Module]:
    torch.manual_seed(3)
    return {name: make() for name, make in ENCODERS.items()}


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_new_word_is_first_read_as_what_it_starts_from_and_trains_alone(
    encoders: dict[str, nn.Module], kind: str
) -> None:
    encoder = encoders[kind]
    base = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    captions = ["a red fox, on grass", "a red fox, on red grass", "nothing of it"]
    before = encoder(captions)
    with_words(encoder, fox={"init": "red fox"}, other={"init": "red", "vectors": 3})
    after = encoder([text.replace("red fox", "<fox>") for text in captions])
    for field in ("context", "pooled"):
        if (states := getattr(before, field)) is not None:
            torch.testing.assert_close(getattr(after, field), states)
    assert all(torch.equal(tensor, base[name]) for name, tensor in encoder.state_dict().items() if name in base)

    tables = token_tables({"text_encoder": encoder})
    assert [table.width for table in tables] == TABLES[kind]
    assert [table.encoder for table in tables] == ["text_encoder", "text_encoder_2"][: len(tables)]
    own = [table.added()[name].vectors for table in tables for name in ("fox", "other")]
    read = encoder(["a <fox> by <other>", "a fox"])
    sum(tensor.square().sum() for tensor in read if isinstance(tensor, torch.Tensor)).backward()
    assert all(vectors.grad is not None and bool(vectors.grad.any(1).all()) for vectors in own)


def test_vectors_start_over_from_the_first_word_and_keep_the_tables_usual_length() -> None:
    encoder = with_words(HashedWordEmbedder(dim=8), it={"init": "red fox", "vectors": 3, "keep_norm": "median"})
    table = token_tables({"text_encoder": encoder})[0]
    vectors = table.added()["it"]
    assert torch.equal(vectors.vectors[0], vectors.vectors[2])
    assert torch.equal(vectors.vectors[:2], table.rows_of("red fox"))
    vectors.vectors.data *= 7
    lengths = vectors().norm(dim=1)
    torch.testing.assert_close(lengths, table.table.weight.norm(dim=1).median().expand(3))


def test_a_model_trains_the_vectors_alone_and_its_checkpoint_refuses_another_number_of_them() -> None:
    embeddings = {"zks": {"init": "dog", "vectors": 2}}
    recipe = {"target": "ldm.adapters.Adapters", "params": {"embeddings": embeddings}}
    model = tiny_model(adapter_config=recipe, cond_stage_trainable=False)
    model.configure_model()
    name = "cond_stage_model.embedding.adapter.zks.vectors"
    assert [(found, tuple(weight.shape)) for found, weight in model.trained_parameters()] == [(name, (2, 8))]
    assert model.text_encoder_trains
    with pytest.raises(Fault, match="RES05"):
        model.load_state_dict({name: torch.zeros(3, 8)}, strict=False)
