"""Stable Diffusion 2.x's text encoder: names, weights, states."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from ldm.files.load import load_part
from ldm.files.write import write_safetensors
from ldm.keys.text_encoders import open_clip_from_transformers
from ldm.modules.encoders.openclip import FrozenOpenCLIPEmbedder, FrozenOpenCLIPEmbedder2
from ldm.modules.meta_init import meta_init

TINY = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SETTINGS = CLIPTextConfig(**TINY, hidden_act="gelu", projection_dim=8)


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@pytest.fixture
def tiny() -> FrozenOpenCLIPEmbedder:
    return FrozenOpenCLIPEmbedder(from_scratch=True, config=TINY).eval()


def test_full_size_names_are_open_clips() -> None:
    with meta_init():
        model = FrozenOpenCLIPEmbedder()
    disk = model.to_disk(model.state_dict())
    assert len(disk) == 294
    assert sum(value.numel() for value in disk.values()) == 354_032_641
    assert sum(parameter.numel() for parameter in model.parameters()) == 340_387_840


def test_going_to_disk_and_back_changes_no_bit(tiny: FrozenOpenCLIPEmbedder) -> None:
    for name, buffer in tiny.named_buffers():
        if "carried" in name:
            buffer.normal_()
    disk = tiny.to_disk(tiny.state_dict())
    assert all(key.startswith("model.") for key in disk)
    assert equal(tiny.from_disk(disk | {"model.attn_mask": torch.ones(2, 2)}), tiny.state_dict())
    assert equal(tiny.from_disk(tiny.state_dict()), tiny.state_dict())


def test_the_states_are_the_librarys_of_a_shortened_encoder(tiny: FrozenOpenCLIPEmbedder) -> None:
    library = CLIPTextModel(SETTINGS).eval()
    load_part(tiny, open_clip_from_transformers(library.state_dict()), "library")
    with torch.no_grad():
        expected = library(tiny.tokens(["a red fox", ""])).last_hidden_state
        assert torch.equal(tiny(["a red fox", ""]).context, expected)


def test_captions_are_filled_with_zeros(tiny: FrozenOpenCLIPEmbedder) -> None:
    assert tiny.tokens(["a!"])[0, :5].tolist() == [49406, 320, 256, 49407, 0]


@pytest.mark.parametrize("below", ["", "text_model."])
def test_a_folder_gives_the_weights_and_what_it_lacks_is_made_up(tmp_path: Path, below: str) -> None:
    library = CLIPTextModel(SETTINGS).eval()
    folder = tmp_path / "text_encoder"
    write_safetensors(folder / "model.safetensors", {below + k: v for k, v in library.state_dict().items()})
    model = FrozenOpenCLIPEmbedder(version=str(tmp_path), config=TINY)
    assert model.loaded_from == str(tmp_path)
    assert torch.equal(model.transformer.state_dict()["final_layer_norm.weight"], library.final_layer_norm.weight)
    again = model.carried.get_buffer("transformer-resblocks-2-mlp-c_fc-weight")
    assert torch.equal(again, library.state_dict()["encoder.layers.1.mlp.fc1.weight"])
    assert not any(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])


def test_the_second_encoder_gives_states_without_norm_and_one_vector() -> None:
    model = FrozenOpenCLIPEmbedder2(from_scratch=True, config=TINY).eval()
    library = CLIPTextModelWithProjection(SETTINGS).eval()
    load_part(model, open_clip_from_transformers(library.state_dict()), "library")
    with torch.no_grad():
        expected = library(model.tokens(["a red fox"]), output_hidden_states=True)
        found = model(["a red fox"])
    assert torch.equal(found.context, expected.hidden_states[-2])
    assert torch.equal(found.pooled, expected.text_embeds)
    assert equal(model.from_disk(model.to_disk(model.state_dict())), model.state_dict())
