"""Words of one's own that no caption holds."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from support.models import tiny_model

from lun.callbacks.unmet_words import UnmetWords


class Captioned:
    def __init__(self, *captions: str) -> None:
        self.captions = captions

    def __len__(self) -> int:
        return len(self.captions)

    def caption(self, index: int, draws: object = None) -> str:
        return self.captions[index]


@pytest.mark.parametrize(
    ("captions", "said"),
    [
        (["a zks", "a <cat>"], ""),
        (["azks", "a <CAT>"], "zks stands in none of 2"),
        (["nothing"], "<cat>, zks stand in none of 1"),
        ([], ""),
    ],
)
def test_words_that_no_caption_holds_are_named_at_the_start(
    captions: list[str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    embeddings = {"zks": {"init": "dog", "token": "zks"}, "cat": {"init": "cat"}}
    recipe = {"target": "ldm.adapters.Adapters", "params": {"embeddings": embeddings}}
    model: Any = tiny_model(adapter_config=recipe, cond_stage_trainable=False)
    model.configure_model()
    data = SimpleNamespace(dataset=lambda split: Captioned(*captions))
    trainer: Any = SimpleNamespace(is_global_zero=True, datamodule=data)
    with caplog.at_level(logging.WARNING):
        UnmetWords().on_fit_start(trainer, model)
    assert said in caplog.text and bool(said) == bool(caplog.text)
