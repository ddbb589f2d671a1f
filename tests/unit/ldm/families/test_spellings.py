"""Tensors of text encoders in single files, and in the networks of transformers that hold them."""

from typing import Any

import pytest
import torch
import transformers

from ldm.families.spellings import T5, Clip, OpenClip, Spelling
from ldm.files.state import State
from ldm.keys.text_encoders import T5_EMBEDDED, T5_SHARED

CLIP = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 1, "num_hidden_layers": 2, "vocab_size": 50}
TINY_T5 = {"vocab_size": 20, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 3}
TINY_T5 |= {"feed_forward_proj": "gated-gelu", "relative_attention_num_buckets": 6}
SPELLINGS: dict[str, tuple[Spelling, dict[str, Any]]] = {
    "SD 1.x": (Clip(), CLIP | {"projection_dim": 8}),
    "SD 3, CLIP-L": (Clip(projects=True, positions=False), CLIP | {"projection_dim": 4}),
    "SD 3, bigG": (Clip("gelu", projects=True, positions=False), CLIP | {"projection_dim": 8, "hidden_act": "gelu"}),
    "SD XL, bigG": (OpenClip(), CLIP | {"projection_dim": 8, "hidden_act": "gelu"}),
    "SD 3, T5": (T5(), TINY_T5),
}


def network(spelling: Spelling, config: dict[str, Any]) -> Any:
    kind = getattr(transformers, spelling.library)
    return kind(kind.config_class(**config))


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_network_goes_into_a_file_and_back_and_is_described_by_its_shapes(name: str) -> None:
    spelling, config = SPELLINGS[name]
    state = dict(network(spelling, config).state_dict())
    file = spelling.to_file(state)
    back, left = spelling.to_transformers(file)
    assert left == {}
    built = network(spelling, spelling.config(back))
    built.load_state_dict(spelling.for_folder(back) if "text_model" in str(list(state)) else back, strict=False)
    assert all(torch.equal(value, state[key]) for key, value in built.state_dict().items())
    assert {key: getattr(built.config, key) for key in config} == config


def test_files_of_stable_diffusion_3_have_clips_own_names() -> None:
    spelling, config = SPELLINGS["SD 3, bigG"]
    file = spelling.to_file(network(spelling, config).state_dict())
    assert {"text_projection.weight", "text_model.final_layer_norm.bias"} <= file.keys()
    assert all(key.startswith("text_") for key in file) and spelling.absent(file).keys() <= file.keys()


def test_a_clip_file_without_its_projection_means_one_that_changes_nothing() -> None:
    spelling, config = SPELLINGS["SD 3, bigG"]
    file = spelling.to_file(network(spelling, config).state_dict())
    del file["text_projection.weight"]
    assert torch.equal(spelling.to_transformers(file)[0]["text_projection.weight"], torch.eye(8))
    assert torch.equal(spelling.absent(file)["text_projection.weight"], torch.eye(8))


def test_t5s_tokens_are_taken_under_either_name_or_both_and_written_once() -> None:
    spelling, config = SPELLINGS["SD 3, T5"]
    state: State = dict(network(spelling, config).state_dict())
    assert {T5_SHARED, T5_EMBEDDED} <= state.keys()
    for dropped in ((), (T5_SHARED,), (T5_EMBEDDED,)):
        given = {key: value for key, value in state.items() if key not in dropped}
        assert spelling.to_file(given).keys() == state.keys() - {T5_EMBEDDED}
        found, left = spelling.to_transformers(given)
        assert found.keys() == state.keys() - {T5_EMBEDDED}
        assert left.keys() == (set() if dropped else {T5_EMBEDDED})  # so that a file comes out as it went in
