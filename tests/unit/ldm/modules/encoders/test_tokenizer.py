"""A tokenizer that is CLIP's, or a fault."""

import json
import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants

from ldm.errors import Fault
from ldm.modules.encoders.tokenizer import PROBE_TOKENS, clip_tokenizer


def fault_of(name: Path | str) -> Fault:
    with pytest.raises(Fault) as caught:
        clip_tokenizer(str(name), 77)
    assert caught.value.id == "MOD04"
    return caught.value


def test_a_whole_vocabulary_is_taken(vocabulary: Path) -> None:
    assert clip_tokenizer(str(vocabulary), 77)("a photo of a cat").input_ids == PROBE_TOKENS


def test_a_pipelines_tokenizer_is_found(vocabulary: Path, tmp_path: Path) -> None:
    shutil.copytree(vocabulary, tmp_path / "tokenizer")
    assert len(clip_tokenizer(str(tmp_path), 77)) == 49408


def test_a_folder_without_vocabulary_is_no_tokenizer_of_two_tokens(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text("{}")
    assert "vocab.json" in fault_of(tmp_path).why


def test_a_small_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.json").write_text(json.dumps({"<|startoftext|>": 0, "<|endoftext|>": 1}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    assert "2 tokens instead of 49408" in fault_of(tmp_path).what


def test_a_vocabulary_with_other_words_is_refused(vocabulary: Path, tmp_path: Path) -> None:
    shutil.copytree(vocabulary, tmp_path / "x")
    text = (tmp_path / "x" / "merges.txt").read_text(encoding="utf-8")
    (tmp_path / "x" / "merges.txt").write_text(text.replace("\nca t</w>\n", "\n"), encoding="utf-8")
    assert "is not CLIP's" in fault_of(tmp_path / "x").what


def test_a_hub_id_offline_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert "not in the cache" in fault_of("no-such-organisation/no-such-model").why
