"""How long captions are for the encoder that reads them."""

from types import SimpleNamespace
from typing import Any

import pytest

from ldm.models.diffusion.part import Part
from lun.plan.caption_lengths import caption_lengths


class Captions:
    def __init__(self, captions: list[str]) -> None:
        self.captions = captions

    def __len__(self) -> int:
        return len(self.captions)

    def caption(self, index: int) -> str:
        return self.captions[index]


def model(target: str, **params: Any) -> Any:
    recipe = {"target": target, "params": params}
    part = Part("model.params.cond_stage_config", recipe, "cond_stage_model.", "text_encoder")
    return SimpleNamespace(part_recipes=lambda: {"text encoder": part})


WORDS = "ldm.modules.encoders.words.HashedWordEmbedder"


@pytest.mark.parametrize(
    ("captions", "told"),
    [
        (["a", "a b", "a b c"], "2 tokens in the middle, 3 at most, of 4 read; none is cut"),
        (["a b c d e", "a"], "1 tokens in the middle, 5 at most, of 4 read; 50 % are cut"),
        (["a"] * 1000, "1 tokens in the middle, 1 at most, of 4 read; none is cut, by 256 of 1,000"),
    ],
    ids=["all fit", "some are cut", "many"],
)
def test_lengths_are_told_in_tokens(captions: list[str], told: str) -> None:
    words = model(WORDS, dim=4, max_length=4, from_scratch=True)
    assert [caption_lengths(words, Captions(captions)) for _ in range(2)] == [told, told]


def test_tokens_that_an_earlier_start_counted_are_not_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    words = model(WORDS, dim=4, max_length=3, from_scratch=True)
    before = caption_lengths(words, Captions(["a b"]))
    monkeypatch.setattr(Part, "build_on_meta", None)
    assert caption_lengths(words, Captions(["a b"])) == before


class Silent:
    def __len__(self) -> int:
        return 3


def test_without_captions_or_an_encoder_nothing_is_told() -> None:
    words = model(WORDS, dim=4, from_scratch=True)
    assert [caption_lengths(words, silent) for silent in (Captions([]), Silent())] == [None, None]
    assert [caption_lengths(one, Captions(["a"])) for one in (SimpleNamespace(), model("torch.nn.Identity"))] == [
        None,
        None,
    ]
