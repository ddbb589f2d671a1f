"""Textual inversion of another program's run: the words that it teaches, as embeddings here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lun.migrate.draft import Draft

MATCH = "text_encoder*embedding.adapter.*"
NEUTRAL = "*"
"""What a word starts from that nothing describes (Gal et al. 2022)."""


@dataclass(frozen=True)
class TaughtWord:
    """A word as captions write it, and what its vectors start from: `init`, or a `file`.

    vectors    how many it stands for
    keep_norm  whether each vector keeps the usual length of the table's
    trains     False leaves those of a file as they are
    """

    token: str
    vectors: int = 1
    init: str = ""
    file: str = ""
    keep_norm: bool = False
    trains: bool = True

    def setting(self) -> dict[str, Any]:
        """The embedding."""
        start = {"file": self.file} if self.file else {"init": self.init or NEUTRAL, "vectors": self.vectors}
        length = {"keep_norm": "median"} if self.keep_norm and self.trains else {}
        return {"token": self.token, **start, **length, **({} if self.trains else {"train": False})}


def teach(draft: Draft, words: Sequence[TaughtWord], rate: float) -> None:
    """Let these words train, at this rate, and nothing else."""
    embeddings: dict[str, Any] = {}
    for number, word in enumerate(words, 1):
        name = re.sub(r"[^A-Za-z0-9_-]+", "", word.token)
        embeddings[name if name and name not in embeddings else f"word-{number}"] = word.setting()
    params = draft.settings.setdefault("model", {}).setdefault("params", {})
    for setting in ("cond_stage_lr_multiple", "training_config"):  # of networks, which are frozen
        params.pop(setting, None)
    draft.set("model.params.cond_stage_trainable", False)
    draft.set("model.params.adapter_config", {"target": "ldm.adapters.Adapters", "params": {"embeddings": embeddings}})
    rules: Mapping[str, Any] = {"embeddings": {"match": MATCH, "lr": rate}}
    draft.set("model.params.training_config", {"target": "ldm.training.rules.Rules", "params": {"rules": rules}})
