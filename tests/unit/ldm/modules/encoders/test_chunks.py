"""Long captions: cut between tags, nothing lost before the limit, told once."""

import logging
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ldm.errors import Fault
from ldm.modules.encoders.chunks import CHUNK, LengthReport, chunked, count_chunks, split
from ldm.modules.encoders.clip import FrozenCLIPEmbedder

TINY = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


def letters(texts):
    """A token a character, whitespace left out."""
    return [[ord(letter) for letter in text if not letter.isspace()] for text in texts]


words = st.text("abc(){}", min_size=1, max_size=120)
tags = st.lists(st.lists(words, min_size=1, max_size=3).map(" ".join), max_size=12)


@given(tags)
def test_the_chunks_together_are_the_tokens_of_the_whole(tags):
    caption = ", ".join(tags)
    chunks = split(caption, letters)
    assert [token for chunk in chunks for token in chunk] == letters([caption])[0]
    assert all(len(chunk) <= CHUNK for chunk in chunks)


@given(st.lists(st.text("abc", min_size=1, max_size=74), min_size=1, max_size=12))
def test_no_tag_is_divided(tags):
    chunks = [bytes(chunk).decode() for chunk in split(", ".join(tags), letters)]
    assert [tag for chunk in chunks for tag in chunk.split(",") if tag] == tags


def test_a_tag_longer_than_a_chunk_is_cut_between_its_words():
    chunks = [bytes(chunk).decode() for chunk in split("x, " + "word " * 20, letters)]
    assert chunks == ["x," + "word" * 18, "word" * 2]


def test_every_chunk_has_start_end_and_padding_and_the_rest_is_cut():
    found = chunked(["a" * 80 + ", b", ""], 2, letters, start=1, end=2, pad=3)
    assert found.shape == (2, 2, CHUNK + 2)
    assert found[0, 0].tolist() == [1, *[97] * 75, 2]
    assert found[0, 1, :9].tolist() == [1, *[97] * 5, 44, 98, 2]
    assert found[1].tolist() == [[1, 2, *[3] * 75]] * 2


@pytest.mark.parametrize(("max_length", "count"), [(77, 1), (75, 1), (8, 1), (150, 2), (225, 3)])
def test_multiples_of_75_are_chunks(max_length, count):
    assert count_chunks(max_length, 77, "here") == count


def test_any_other_length_is_refused():
    with pytest.raises(Fault, match=r"150, 225, 300"):
        count_chunks(100, 77, "here")


def test_cut_captions_are_told_once_with_the_setting_that_keeps_them(caplog):
    report = LengthReport(75, enough=4)
    report.see([10, 0, 80, 0])
    assert not report.done
    report.see([75, 160])
    assert report.done
    assert caplog.messages == [
        "warning[DAT07]: 50 % of captions are longer than 75 tokens; the end is cut off (median 77, longest 160)",
        "  fix:   model.params.cond_stage_config.params.max_length=225",
    ]


def test_captions_that_fit_are_not_worth_a_word(caplog):
    with caplog.at_level(logging.INFO):
        LengthReport(75, enough=2).see([75, 75])
    assert caplog.messages == []


def test_the_encoder_reads_a_caption_in_chunks(vocabulary: Path):
    torch.manual_seed(0)
    long = FrozenCLIPEmbedder(str(vocabulary), from_scratch=True, config=TINY, max_length=150).eval()
    short = FrozenCLIPEmbedder(str(vocabulary), from_scratch=True, config=TINY).eval()
    short.load_state_dict(long.state_dict())
    first, second = ", ".join(["a photo of a cat"] * 12) + ",", "a photo of a cat"
    with torch.no_grad():
        context = long([f"{first} {second}", second]).context
        assert context.shape == (2, 2 * 77, 8)
        assert torch.allclose(context[0, :77], short([first]).context[0], atol=1e-6)
        assert torch.allclose(context[0, 77:], short([second]).context[0], atol=1e-6)
        assert torch.allclose(context[1, 77:], short([""]).context[0], atol=1e-6)


def test_a_long_caption_is_counted_by_the_encoder(vocabulary: Path, caplog):
    model = FrozenCLIPEmbedder(str(vocabulary), from_scratch=True, config=TINY)
    model.report.enough = 2
    model(["a cat", "a photo of a cat " * 40])
    assert "50 % of captions are longer than 75 tokens" in caplog.messages[0]
