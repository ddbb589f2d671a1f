"""T5's encoder: its vocabulary, and the precision that it never computes in."""

import logging
from pathlib import Path

import pytest
import torch
from support.sd3 import PIECES, T5, VOCABULARY, t5_tokenizer
from torch import nn

from ldm.errors import Fault
from ldm.modules.encoders.t5 import T5_XXL, T5Text, T5Tokens
from ldm.modules.meta_init import meta_init

FOLDER = str(VOCABULARY)


def tiny() -> T5Text:
    torch.manual_seed(0)
    return T5Text(FOLDER, 12, T5).eval()


def test_captions_end_with_their_mark_and_are_filled_up_with_zeros() -> None:
    rows = T5Tokens(FOLDER, 6, PIECES)(["a red fox", "", "a red fox on the grass in green"])
    one, mark = t5_tokenizer()("a red fox", add_special_tokens=False).input_ids, 1
    assert rows.tolist()[:2] == [[*one, mark, 0, 0], [mark, 0, 0, 0, 0, 0]]
    assert rows[2, -1] == mark and (rows[2] > 0).all()


@pytest.mark.parametrize("place", ["tokenizer_3", "tokenizer", "."])
def test_a_vocabulary_is_found_in_a_pipeline_and_alone(tmp_path: Path, place: str) -> None:
    t5_tokenizer().save_pretrained(tmp_path / place)
    assert T5Tokens(str(tmp_path), 6, PIECES)(["a"]).shape == (1, 6)


@pytest.mark.parametrize("name", ["stabilityai/no-such-model", "."])
def test_a_vocabulary_that_is_not_there_is_named_with_the_file_to_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Fault) as caught:
        T5Tokens(name, 6, PIECES)(["a"])
    assert caught.value.id == "MOD01"
    assert caught.value.where == "model.params.cond_stage_config.params.tokenizer_3"
    assert "tokenizer_3/tokenizer.json" in caught.value.fix


@pytest.mark.parametrize("rows", [PIECES - 20, PIECES + 200])
def test_the_vocabulary_of_another_network_is_refused(rows: int) -> None:
    with pytest.raises(Fault, match="is not this T5's") as caught:
        T5Tokens(FOLDER, 6, rows)(["a"])
    assert caught.value.id == "MOD04"


@torch.no_grad()
def test_it_never_becomes_float16_nor_computes_in_it() -> None:
    text = tiny()
    exact = text(["a red fox"])
    with torch.autocast("cpu", torch.float16):
        assert torch.equal(text(["a red fox"]), exact)
    with torch.autocast("cpu", torch.bfloat16):
        assert not torch.equal(text(["a red fox"]), exact)
    whole = nn.ModuleList([text, nn.Linear(2, 2)]).half()
    assert whole[1].weight.dtype == torch.float16
    assert {parameter.dtype for parameter in text.parameters()} == {torch.bfloat16}
    assert text(["a red fox"]).dtype == torch.bfloat16


def test_it_is_trained_under_float16_as_well_where_its_inner_layers_overflow_that() -> None:
    text = tiny()
    with torch.no_grad():
        text.transformer.encoder.block[0].layer[1].DenseReluDense.wi_1.weight.mul_(1e5)
    with torch.autocast("cpu", torch.float16):
        states = text(["a red fox"])
    states.square().mean().backward()
    gradients = {name: parameter.grad for name, parameter in text.named_parameters()}
    assert states.isfinite().all()
    assert [name for name, grad in gradients.items() if grad is None or not grad.isfinite().all()] == []


def test_captions_that_are_cut_are_counted_once_with_the_setting_that_keeps_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tokens = T5Tokens(FOLDER, 4, PIECES)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            tokens(["a red fox on the grass"] * 300)
    assert [record.getMessage() for record in caplog.records if "fix:" in record.getMessage()] == [
        "  fix:   model.params.cond_stage_config.params.t5_length=7"
    ]


def test_the_published_encoder_has_its_size() -> None:
    with meta_init():
        text = T5Text("not read yet", 256, {})
    assert sum(parameter.numel() for parameter in text.parameters()) == 4_762_310_656
    assert (len(text.state_dict()), len(text.to_disk(text.state_dict()))) == (220, 219)
    assert text.width == T5_XXL["d_model"]


def test_no_vocabulary_is_needed_for_captions_without_words() -> None:
    assert torch.equal(
        T5Tokens("stabilityai/no-such-model", 6, PIECES)(["", ""]), T5Tokens(FOLDER, 6, PIECES)(["", "a"])[[0, 0]]
    )
