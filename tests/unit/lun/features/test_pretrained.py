"""What a folder lacks is told by the setting that names it."""

from pathlib import Path

import pytest
from support.tiny_encoders import clip

from ldm.errors import Fault
from lun.features.pretrained import Purpose, load_processor, read_config


def test_a_folder_without_a_model_says_what_to_fetch(tmp_path: Path) -> None:
    with pytest.raises(Fault) as refused:
        read_config(tmp_path, Purpose("likeness", "--dino", "facebook/dinov2-large"))
    assert refused.value.fix == (
        "--dino DIR, with a model of transformers: hf download facebook/dinov2-large --local-dir DIR"
    )


def test_a_tokenizer_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    folder = clip(tmp_path / "clip")
    for path in folder.glob("tokenizer.json"):
        path.unlink()
    with pytest.raises(Fault) as refused:
        load_processor("AutoTokenizer", folder, Purpose("captions", "--clip"))
    assert (refused.value.id, refused.value.where) == ("MOD02", "--clip")
