"""Text encoders' tensors under transformers' and open_clip's names."""

import hashlib

import pytest
import torch
from torch import Tensor
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from ldm.keys.text_encoders import (
    count_open_clip_layers,
    open_clip_from_transformers,
    stand_ins,
    transformers_from_open_clip,
)

SMALL = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2, "vocab_size": 50}
VIT_H = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 23}
BIG_G = {"hidden_size": 1280, "intermediate_size": 5120, "num_attention_heads": 20, "num_hidden_layers": 32}


def table_hash(state: dict[str, Tensor], prefix: str) -> tuple[int, str]:
    lines = sorted(f"{prefix}{key} {tuple(value.shape)}" for key, value in state.items())
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def test_the_names_and_shapes_of_stable_diffusion_2_are_exact() -> None:
    with torch.device("meta"):
        encoder = CLIPTextModel(CLIPTextConfig(**VIT_H, projection_dim=1024))
        state = open_clip_from_transformers(encoder.state_dict())
        assert table_hash(state, "cond_stage_model.model.") == (280, "9142aa1e1df1305f")
        full = state | stand_ins(state, 1024)
    assert table_hash(full, "cond_stage_model.model.") == (294, "e53b7f914b17e3c5")


def test_the_names_and_shapes_of_xls_second_encoder_are_exact() -> None:
    with torch.device("meta"):
        encoder = CLIPTextModelWithProjection(CLIPTextConfig(**BIG_G, projection_dim=1280))
        state = open_clip_from_transformers(encoder.state_dict())
    assert table_hash(state, "conditioner.embedders.1.model.") == (389, "82d13d2aa8753c90")
    state["logit_scale"] = torch.ones(())
    assert table_hash(state, "conditioner.embedders.1.model.") == (390, "fb2cec2ea751d6cd")


@pytest.mark.parametrize("projected", [False, True])
def test_there_and_back_changes_no_bit(projected: bool) -> None:
    kind = CLIPTextModelWithProjection if projected else CLIPTextModel
    state = kind(CLIPTextConfig(**SMALL, num_hidden_layers=2, projection_dim=8)).state_dict()
    back, rest = transformers_from_open_clip(open_clip_from_transformers(state))
    assert rest == {}
    assert back.keys() == {key.removeprefix("text_model.") for key in state}
    assert all(torch.equal(value, back[key.removeprefix("text_model.")]) for key, value in state.items())
    assert all(value.is_contiguous() for value in back.values())


def test_a_shortened_encoder_leaves_14_tensors_over_and_nothing_is_lost() -> None:
    state = open_clip_from_transformers(CLIPTextModel(CLIPTextConfig(**SMALL, num_hidden_layers=2)).state_dict())
    whole = state | stand_ins(state, 8)
    assert count_open_clip_layers(whole) == 3
    short, rest = transformers_from_open_clip(whole, shortened=True)
    assert len(rest) == 14
    again = open_clip_from_transformers(short) | rest
    assert again.keys() == whole.keys()
    assert all(torch.equal(again[key], whole[key]) for key in whole)


def test_constants_of_older_files_are_left_out_and_foreign_tensors_refused() -> None:
    assert open_clip_from_transformers({"text_model.embeddings.position_ids": torch.arange(77)}) == {}
    with pytest.raises(KeyError):
        open_clip_from_transformers({"vision_model.x": torch.ones(1)})
