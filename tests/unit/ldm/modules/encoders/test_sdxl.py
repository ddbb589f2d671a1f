"""Stable Diffusion XL's conditioning out of two encoders."""

import hashlib
from pathlib import Path

import torch
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from ldm.files.write import write_safetensors
from ldm.modules.encoders.sdxl import SDXLConditioner
from ldm.modules.meta_init import meta_init

FIRST = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SECOND = {"hidden_size": 12, "intermediate_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}


def tiny() -> SDXLConditioner:
    return SDXLConditioner(from_scratch=True, clip=FIRST, open_clip=SECOND).eval()


def test_full_size_names_are_those_of_xls_files() -> None:
    with meta_init():
        model = SDXLConditioner()
    disk = {f"conditioner.{key}": value for key, value in model.to_disk(model.state_dict()).items()}
    first = sorted(f"{key} {tuple(value.shape)}" for key, value in disk.items() if "embedders.0" in key)
    second = sorted(f"{key} {tuple(value.shape)}" for key, value in disk.items() if "embedders.1" in key)
    assert hashlib.sha256("\n".join(first).encode()).hexdigest()[:16] == "e021d8431c691236"
    assert hashlib.sha256("\n".join(second).encode()).hexdigest()[:16] == "fb2cec2ea751d6cd"


def test_what_it_tells_is_both_encoders_states_and_one_vector() -> None:
    with torch.no_grad():
        found = tiny()(["a red fox", ""])
    assert found.context is not None and found.pooled is not None and found.sizes is None
    assert found.context.shape == (2, 77, 20)
    assert found.pooled.shape == (2, 12)


def test_a_pipelines_folder_gives_both_encoders(tmp_path: Path) -> None:
    first = CLIPTextModel(CLIPTextConfig(**FIRST)).eval()
    second = CLIPTextModelWithProjection(CLIPTextConfig(**SECOND, hidden_act="gelu", projection_dim=12)).eval()
    write_safetensors(tmp_path / "text_encoder" / "model.safetensors", dict(first.state_dict()))
    write_safetensors(tmp_path / "text_encoder_2" / "model.safetensors", dict(second.state_dict()))
    model = SDXLConditioner(version=str(tmp_path), clip=FIRST, open_clip=SECOND).eval()
    tokens = model.embedders[1].tokens(["a red fox"])
    marked = tokens.clone()
    marked[:, 5:] = 49407  # the first encoder fills with the mark of the end
    with torch.no_grad():
        found = model(["a red fox"])
        expected = torch.cat(
            [
                first(marked, output_hidden_states=True).hidden_states[-2],
                second(tokens, output_hidden_states=True).hidden_states[-2],
            ],
            dim=-1,
        )
        assert torch.equal(found.context, expected)
        assert torch.equal(found.pooled, second(tokens).text_embeds)


def test_going_to_disk_and_back_changes_no_bit() -> None:
    model = tiny()
    state, back = model.state_dict(), model.from_disk(model.to_disk(model.state_dict()))
    assert state.keys() == back.keys()
    assert all(torch.equal(state[key], back[key]) for key in state)
