"""The vocabulary that ships."""

import hashlib
from pathlib import Path

import pytest

from ldm.modules.encoders import vocabulary
from ldm.modules.encoders.tokenizer import PROBE, PROBE_TOKENS, clip_tokenizer
from ldm.modules.encoders.tokens import CaptionTokens


def test_it_has_clips_size_and_ends() -> None:
    tokens = vocabulary.clip_vocabulary()
    assert len(vocabulary.clip_merges()) == 48_894
    assert (len(tokens), tokens["<|startoftext|>"], tokens["<|endoftext|>"]) == (49_408, 49_406, 49_407)


def test_the_file_is_small_and_the_one_of_its_notice() -> None:
    content = vocabulary.MERGES.read_bytes()
    notice = (vocabulary.MERGES.parent / "NOTICE").read_text()
    assert len(content) < 2**20
    assert f"{hashlib.sha256(content).hexdigest()}  {vocabulary.MERGES.name}" in notice
    assert "Permission is hereby granted" in notice


def test_captions_become_the_ids_that_stable_diffusion_was_trained_with() -> None:
    tokenizer = clip_tokenizer("built-in", 77)
    assert tokenizer(PROBE).input_ids == PROBE_TOKENS
    rows = CaptionTokens(tokenizer, 12, 77, padding=0)(["it's!", "héllo 日本語 😀", ""]).tolist()
    assert rows[0] == [49406, 585, 568, 256, 49407, *[0] * 7]
    assert rows[1] == [49406, 71, 3459, 19293, 39121, 44353, 34002, 508, 7334, 49407, 0, 0]
    assert rows[2] == [49406, 49407, *[0] * 10]


def test_long_captions_are_cut_and_marks_in_captions_are_only_text() -> None:
    tokenizer = clip_tokenizer("built-in", 77)
    assert CaptionTokens(tokenizer, 77, 77, padding=0)(["a " * 90])[0, -1] == 49407
    marked = CaptionTokens(tokenizer, 6, 77, padding=0)(["a <|endoftext|> b"])
    assert marked.tolist() == [[49406, 320, 321, 49407, 0, 0]]


def test_the_files_for_other_programs_give_the_same_tokenizer(tmp_path: Path) -> None:
    for name, text in vocabulary.vocabulary_files().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    caption = "a painting of 3 foxes, by someone's friend"
    assert clip_tokenizer(str(tmp_path), 77)(caption) == clip_tokenizer("built-in", 77)(caption)


@pytest.mark.parametrize("name", ["clip-merges.txt.gz", "NOTICE"])
def test_the_data_is_installed_with_the_package(name: str, repo_root: Path) -> None:
    assert '"ldm.modules.encoders" = ["data/*"]' in (repo_root / "pyproject.toml").read_text()
    assert (repo_root / "ldm/modules/encoders/data" / name).is_file()
