"""Files of embeddings by every writer."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ldm.adapters.embedding_files import read_embedding, to_file, write_a1111
from ldm.errors import Fault

ROWS = torch.arange(6.0).view(2, 3)
WIDE = torch.ones(2, 5)


def written(path: Path, content: Any, metadata: dict[str, str] | None = None) -> Path:
    if path.suffix == ".safetensors":
        save_file(content, path, metadata)
    else:
        torch.save(content, path)
    return path


@pytest.mark.parametrize(
    ("name", "content", "token"),
    [
        ("a.safetensors", {"emb_params": ROWS}, ""),
        ("a.safetensors", {"<cat>": ROWS}, "<cat>"),
        ("a.bin", {"<cat>": ROWS}, "<cat>"),
        ("a.pt", {"string_to_token": {"*": 265}, "string_to_param": {"*": ROWS.half()}, "name": "kitty"}, "kitty"),
        ("a.pt", {"string_to_param": {"*": torch.nn.Parameter(ROWS)}}, ""),
    ],
    ids=["emb_params", "diffusers' safetensors", "diffusers' bin", "A1111's", "A1111's without a name"],
)
def test_vectors_and_the_word_are_read_from_every_writers_file(
    tmp_path: Path, name: str, content: Any, token: str
) -> None:
    file = read_embedding(written(tmp_path / name, content))
    assert file.token == token
    found = file.for_tables({"text_encoder": 3}, name)
    assert torch.equal(found["text_encoder"], ROWS)


def test_files_of_one_encoder_and_two_go_out_and_in_again(tmp_path: Path) -> None:
    alone = written(tmp_path / "one.safetensors", to_file({"text_encoder": ROWS}), {"lun.token": "<it>"})
    assert read_embedding(alone).token == "<it>"
    vectors = {"text_encoder": ROWS, "text_encoder_2": WIDE}
    both = read_embedding(written(tmp_path / "two.safetensors", to_file(vectors)))
    assert set(both.vectors) == {"clip_l", "clip_g"}
    found = both.for_tables({"text_encoder": 3, "text_encoder_2": 5}, "two")
    assert all(torch.equal(found[name], rows) for name, rows in vectors.items())
    write_a1111(tmp_path / "it.pt", ROWS, "<it>", 7)
    content = torch.load(tmp_path / "it.pt", weights_only=True)
    assert (content["name"], content["step"], content["string_to_token"]) == ("<it>", 7, {"*": 265})
    assert torch.equal(read_embedding(tmp_path / "it.pt").vectors["emb_params"], ROWS)


@pytest.mark.parametrize(
    "widths",
    [{"text_encoder": 4}, {"text_encoder": 3, "text_encoder_2": 5}, {"text_encoder_2": 5}],
    ids=["another width", "two encoders", "the other encoder"],
)
def test_a_file_of_another_family_is_refused_with_its_widths(tmp_path: Path, widths: dict[str, int]) -> None:
    file = read_embedding(written(tmp_path / "a.safetensors", {"emb_params": ROWS}))
    with pytest.raises(Fault, match="MOD03") as fault:
        file.for_tables(widths, "a.safetensors")
    assert "[2, 3]" in fault.value.why
    both = read_embedding(written(tmp_path / "b.safetensors", {"clip_l": ROWS, "clip_g": WIDE}))
    with pytest.raises(Fault, match="MOD03"):
        both.for_tables({"text_encoder": 3}, "b.safetensors")


@pytest.mark.parametrize(
    "content",
    [
        {"a": ROWS, "b": ROWS},
        {"emb_params": torch.ones(2, 2, 2)},
        {"emb_params": torch.ones(3, dtype=torch.int64)},
        {"emb_params": torch.tensor([[float("nan")]])},
        {"emb_params": torch.ones(0, 3)},
        {"string_to_param": {"*": "text"}},
        {},
        [ROWS],
    ],
    ids=["two words", "three axes", "whole numbers", "nan", "no vector", "no tensor", "nothing", "a list"],
)
def test_what_is_no_embedding_is_refused_by_name(tmp_path: Path, content: Any) -> None:
    with pytest.raises(Fault, match="MOD0[23]") as fault:
        read_embedding(written(tmp_path / "odd.pt", content))
    assert "odd.pt" in fault.value.what
