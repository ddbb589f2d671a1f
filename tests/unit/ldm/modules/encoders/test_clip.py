"""CLIP's text encoder: keys, weights, layers."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants
from torch import Tensor

from ldm.errors import Fault
from ldm.files.write import write_safetensors
from ldm.keys.split_checkpoint import COND_STAGE
from ldm.modules.encoders.clip import FrozenCLIPEmbedder

TINY = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}


@pytest.fixture
def tiny(vocabulary: Path) -> FrozenCLIPEmbedder:
    return FrozenCLIPEmbedder(str(vocabulary), from_scratch=True, config=TINY).eval()


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def test_stable_diffusions_keys_and_shapes_are_exact(vocabulary: Path) -> None:
    with torch.device("meta"):
        model = FrozenCLIPEmbedder(tokenizer=str(vocabulary), from_scratch=True)
    disk = model.to_disk(model.state_dict())
    table = "\n".join(sorted(f"{COND_STAGE}{key} {tuple(value.shape)}" for key, value in disk.items()))
    assert sum(p.numel() for p in model.parameters()) == 123_060_480
    assert hashlib.sha256(table.encode()).hexdigest()[:16] == "0a16f8e4840267b5"


def test_going_to_disk_and_back_changes_no_bit(tiny: FrozenCLIPEmbedder) -> None:
    disk = tiny.to_disk(tiny.state_dict())
    constants_of_2022 = {"transformer.text_model.embeddings.position_ids": torch.arange(77.0)[None]}
    assert equal(tiny.from_disk(disk | constants_of_2022), tiny.state_dict())
    assert equal(tiny.from_disk(tiny.state_dict()), tiny.state_dict())


def test_captions_become_a_context_of_fixed_length(tiny: FrozenCLIPEmbedder) -> None:
    with torch.no_grad():
        context = tiny(["a cat", "", "a photo of a cat " * 40]).context
    assert context is not None
    assert context.shape == (3, 77, 8)


def test_the_padding_is_stable_diffusions(tiny: FrozenCLIPEmbedder) -> None:
    tokens = tiny.tokenizer(["a"], padding="max_length", max_length=5).input_ids[0]
    assert tokens == [49406, 320, 49407, 49407, 49407]


def test_the_penultimate_layer_still_passes_the_last_norm(tiny: FrozenCLIPEmbedder) -> None:
    with torch.no_grad():
        tiny.layer = "penultimate"
        context = tiny(["a cat"]).context
        del tiny.transformer.encoder.layers[-1]
        tiny.layer = "last"
        assert torch.allclose(context, tiny(["a cat"]).context, atol=1e-6)


@pytest.mark.parametrize("names", ["today", "with text_model", "with vision"])
def test_weights_and_architecture_come_from_a_folder(
    tiny: FrozenCLIPEmbedder, vocabulary: Path, tmp_path: Path, names: str
) -> None:
    state: dict[str, Tensor] = dict(tiny.transformer.state_dict())
    config: dict[str, Any] = {**tiny.transformer.config.to_dict(), "dtype": "float16"}
    if names != "today":
        state = {f"text_model.{key}": value for key, value in state.items()}
        state["text_model.embeddings.position_ids"] = torch.arange(77)[None]
    if names == "with vision":
        state |= {"vision_model.x": torch.ones(1), "logit_scale": torch.ones(())}
        config = {"model_type": "clip", "text_config": config}
    write_safetensors(tmp_path / "model.safetensors", state)
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = FrozenCLIPEmbedder(str(tmp_path), tokenizer=str(vocabulary)).eval()
    assert model.loaded_from == str(tmp_path)
    with torch.no_grad():
        assert torch.equal(model(["a cat"]).context, tiny(["a cat"]).context)


def test_weights_come_from_a_whole_checkpoint(tiny: FrozenCLIPEmbedder, vocabulary: Path, tmp_path: Path) -> None:
    state = {COND_STAGE + key: value for key, value in tiny.to_disk(tiny.state_dict()).items()}
    write_safetensors(tmp_path / "sd.safetensors", state | {"model.diffusion_model.x": torch.ones(1)})
    model = FrozenCLIPEmbedder(tokenizer=str(vocabulary), ckpt_path=str(tmp_path / "sd.safetensors"), config=TINY)
    assert equal(model.state_dict(), tiny.state_dict())


def test_without_weights_offline_the_fault_comes_at_once(vocabulary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(Fault) as caught:
        FrozenCLIPEmbedder("no-such-organisation/no-such-model", tokenizer=str(vocabulary))
    assert caught.value.id == "MOD01"


def test_nothing_is_frozen_by_itself(tiny: FrozenCLIPEmbedder) -> None:
    assert all(parameter.requires_grad for parameter in tiny.parameters())


def test_more_tokens_than_places_are_refused(vocabulary: Path) -> None:
    with pytest.raises(Fault, match="max_length=78"):
        FrozenCLIPEmbedder(str(vocabulary), max_length=78, from_scratch=True, config=TINY)
