"""OneTrainer's method EMBEDDING: the words that it teaches, and those of files beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lun.migrate.draft import Draft
from lun.migrate.foreign import Taken
from lun.migrate.runs.taught_words import TaughtWord, teach

_ENCODERS = ("text_encoder", "text_encoder_2", "text_encoder_3", "text_encoder_4")
_OF_A_WORD = (
    *("uuid", "model_name", "placeholder", "train", "token_count", "initial_embedding_text", "is_output_embedding"),
    *("stop_training_after", "stop_training_after_unit"),
)


def teach_words(taken: Taken, draft: Draft) -> None:
    """Write the word that trains, and those beside it."""
    rate = taken.number("embedding_learning_rate", 0) or taken.number("learning_rate", 3e-6)
    keep_norm = bool(taken("preserve_embedding_norm"))
    own = {name: taken(f"embedding.{name}") for name in _OF_A_WORD}
    for encoder in _ENCODERS:  # each has the vectors of every word here
        taken(f"{encoder}.train_embedding")
    words = [_word(one, keep_norm, draft) for one in (own, *taken("additional_embeddings", ()))]
    teach(draft, words, rate)
    draft.set("model.base_learning_rate", rate)


def _word(given: Mapping[str, Any], keep_norm: bool, draft: Draft) -> TaughtWord:
    token = str(given.get("placeholder") or "<embedding>")
    if given.get("is_output_embedding"):
        draft.note("none", f"is_output_embedding of {token}: vectors stand before the text encoder")
    if given.get("stop_training_after") and given.get("stop_training_after_unit", "NEVER") != "NEVER":
        draft.note("same", f"stop_training_after of {token}: `until` of a rule, docs/optimizers.md")
    file, init = str(given.get("model_name") or ""), str(given.get("initial_embedding_text") or "")
    trains = given.get("train") is not False or not file
    return TaughtWord(token, int(given.get("token_count") or 1), init, file, keep_norm, trains)
