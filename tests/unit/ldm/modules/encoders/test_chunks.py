"""Long captions: cut between tags, nothing lost before the limit, told once."""

import logging
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.sd3 import T5, VOCABULARY

from ldm.admission import get_obj_from_str
from ldm.errors import Fault
from ldm.families.registry import SHIPPED
from ldm.modules.encoders.chunks import CHUNK, LengthReport, chunked, count_chunks, split
from ldm.modules.encoders.clip import FrozenCLIPEmbedder
from ldm.modules.encoders.openclip import FrozenOpenCLIPEmbedder, FrozenOpenCLIPEmbedder2
from ldm.modules.encoders.sd3 import SD3Conditioner
from ldm.modules.encoders.sdxl import SDXLConditioner
from ldm.modules.encoders.tokens import CaptionTokens
from ldm.modules.meta_init import meta_init

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
    report = LengthReport(75, 77, enough=4)
    report.see([10, 0, 80, 0])
    assert not report.done
    report.see([75, 160])
    assert report.done
    assert caplog.messages == [
        "warning[DAT07]: 50 % of captions are longer than 75 tokens; the end is cut off (median 77, longest 160)",
        "  fix:   model.params.cond_stage_config.params.max_length=225",
    ]


def test_what_fits_into_the_encoder_is_given_places_for_both_ends(caplog):
    LengthReport(18, 77, enough=1).see([74])
    assert caplog.messages[1].endswith("max_length=76")
    LengthReport(18, 77, enough=1).see([76])
    assert caplog.messages[3].endswith("max_length=150")


def test_captions_that_fit_are_not_worth_a_word(caplog):
    with caplog.at_level(logging.INFO):
        LengthReport(75, 77, enough=2).see([75, 75])
    assert caplog.messages == []


ENCODERS = {
    "CLIP": lambda **more: FrozenCLIPEmbedder(from_scratch=True, config=TINY, **more),
    "OpenCLIP of 2.x": lambda **more: FrozenOpenCLIPEmbedder(from_scratch=True, config=TINY, **more),
    "OpenCLIP of XL": lambda **more: FrozenOpenCLIPEmbedder2(from_scratch=True, config=TINY, **more),
    "both of XL": lambda **more: SDXLConditioner(from_scratch=True, clip=TINY, open_clip=TINY, **more),
    "all of SD 3": lambda **more: SD3Conditioner(
        from_scratch=True, clip=TINY, open_clip=TINY, t5=T5, t5_length=400, tokenizer_3=str(VOCABULARY), **more
    ),
}
BEHIND = {"all of SD 3": 400}
"""Tokens of an encoder that reads a caption whole."""


def test_the_encoders_of_every_family_are_among_them():
    made = [type(make()) for make in ENCODERS.values()]
    for family in SHIPPED:
        configs = [{} for _ in family.encoders]
        state = {encoder.prefix.partition(".")[2]: torch.empty(0) for encoder in family.encoders}
        assert get_obj_from_str(family.conditioner(state, configs, None)["target"]) in made


@pytest.mark.parametrize("length", [150, 225])
@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_has_so_many_tokens_of_a_long_caption(name, length):
    with meta_init():
        built = ENCODERS[name](max_length=length)
    tokens = [part.tokens for part in built.modules() if isinstance(getattr(part, "tokens", None), CaptionTokens)]
    assert tokens and {one(["a cat, " * 200]).shape for one in tokens} == {(length // 75, 77)}


@pytest.mark.parametrize("name", ENCODERS)
def test_every_encoder_reads_a_long_caption_chunk_by_chunk(name):
    """A caption of two chunks is told as its halves are, side by side; the vector is the first one's."""
    torch.manual_seed(0)
    long, short = (ENCODERS[name](max_length=length).eval() for length in (150, 77))
    short.load_state_dict(long.state_dict())
    first, second = ", ".join(["a photo of a cat"] * 12) + ",", "a photo of a cat"
    with torch.no_grad():
        told, halves = long([f"{first} {second}", second]), short([first, second, ""])
    behind = BEHIND.get(name, 0)
    assert told.context.shape[:2] == (2, 2 * 77 + behind)
    if behind:
        assert torch.equal(told.context[1, 154:], halves.context[1, 77:])
        told, halves = (one._replace(context=one.context[:, :-behind]) for one in (told, halves))
    assert torch.allclose(told.context[0, :77], halves.context[0], atol=1e-6)
    assert torch.allclose(told.context[0, 77:], halves.context[1], atol=1e-6)
    assert torch.allclose(told.context[1, :77], halves.context[1], atol=1e-6)
    assert torch.allclose(told.context[1, 77:], halves.context[2], atol=1e-6)
    if halves.pooled is not None:
        assert torch.allclose(told.pooled, halves.pooled[:2], atol=1e-6)


@pytest.mark.parametrize("name", [name for name in ENCODERS if name not in BEHIND])  # where that reads all, it speaks
def test_the_fix_of_the_length_report_builds_an_encoder_that_cuts_nothing(name, caplog):
    caption = "a photo of a cat, " * 30
    for length in (20, 77):
        found = ENCODERS[name](max_length=length)
        for part in found.modules():
            if hasattr(part, "tokens"):
                part.tokens.report.enough = 1
        with torch.no_grad():
            found([caption])
        assert len(caplog.messages) == 2  # said once, also of two encoders
        keeps = int(caplog.messages[1].rpartition("max_length=")[2])
        caplog.clear()
        longer = ENCODERS[name](max_length=keeps)
        for part in longer.modules():
            if hasattr(part, "tokens"):
                part.tokens.report.enough = 1
        with torch.no_grad():
            longer([caption])
        assert caplog.messages == []


def test_a_long_caption_is_counted_by_the_encoder(vocabulary: Path, caplog):
    model = FrozenCLIPEmbedder(str(vocabulary), from_scratch=True, config=TINY)
    model.tokens.report.enough = 2
    model(["a cat", "a photo of a cat " * 40])
    assert "50 % of captions are longer than 75 tokens" in caplog.messages[0]
