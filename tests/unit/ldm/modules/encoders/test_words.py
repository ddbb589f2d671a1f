"""Hashed words."""

from pathlib import Path

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.files.write import write_safetensors
from ldm.modules.encoders.words import HashedWordEmbedder


def test_buckets_are_the_same_on_every_machine() -> None:
    tokens = HashedWordEmbedder(max_length=4).tokenize(["Frog face, red"])
    assert tokens.tolist() == [[479, 216, 913, 0]]


def test_case_and_punctuation_do_not_count() -> None:
    embedder = HashedWordEmbedder()
    assert torch.equal(embedder.tokenize(["Frog, RED!"]), embedder.tokenize([" frog red"]))


def test_an_empty_caption_is_nothing_but_padding() -> None:
    assert HashedWordEmbedder(max_length=3).tokenize([""]).tolist() == [[0, 0, 0]]


@settings(deadline=None)
@given(captions=st.lists(st.text(), min_size=1, max_size=3))
def test_any_text_gives_buckets_in_range_and_padding_only_at_the_end(captions: list[str]) -> None:
    tokens = HashedWordEmbedder(dim=2, max_length=5, buckets=7).tokenize(captions)
    assert tokens.shape == (len(captions), 5)
    assert tokens.min() >= 0
    assert tokens.max() < 7
    for row in tokens.tolist():
        assert row == sorted(row, key=lambda token: token == 0)


def test_the_order_of_words_matters() -> None:
    embedder = HashedWordEmbedder()
    a, b = embedder(["red frog"]).context, embedder(["frog red"]).context
    assert not torch.allclose(a, b)


def test_the_context_has_its_shape_and_trains() -> None:
    embedder = HashedWordEmbedder(dim=6, max_length=3, from_scratch=True)
    context = embedder(["one", "two words"]).context
    assert context is not None
    assert context.shape == (2, 3, 6)
    (context * torch.arange(6)).sum().backward()
    assert all(parameter.grad is not None for parameter in embedder.parameters())


def test_no_captions_give_an_empty_context() -> None:
    context = HashedWordEmbedder(dim=6, max_length=3)([]).context
    assert context is not None
    assert context.shape == (0, 3, 6)


def test_weights_come_from_a_whole_checkpoint(tmp_path: Path) -> None:
    source = HashedWordEmbedder(dim=4)
    state = {f"cond_stage_model.{key}": value for key, value in source.to_disk(source.state_dict()).items()}
    write_safetensors(tmp_path / "x.safetensors", state | {"betas": torch.ones(2)})
    embedder = HashedWordEmbedder(dim=4, ckpt_path=str(tmp_path / "x.safetensors"))
    assert embedder.loaded_from == str(tmp_path / "x.safetensors")
    assert torch.equal(embedder.position, source.position)
