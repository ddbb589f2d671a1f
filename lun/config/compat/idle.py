"""Parameters of 2022 that mean nothing to what is built today, wherever its recipe stands: dropped, with a note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lun.config.compat.rewriting import Config, Upgrade, at, put, rewrite, without

_PLACED = "the trainer places the model"
_PICTURES = {"mode": "data.params.train and validation say which is which"}
_ENCODER = {"device": _PLACED}

DROPPED: Mapping[str, Mapping[str, str]] = {
    "DataModuleFromConfig": {
        "wrap": "every dataset is wrapped",
        "use_worker_init_fn": "the draws of every worker are keyed",
        "shuffle_test_loader": "a run trains and validates; it does not test",
    },
    "Local": _PICTURES,
    "LocalBase": _PICTURES,
    "FrozenCLIPEmbedder": _ENCODER,
    "FrozenOpenCLIPEmbedder": _ENCODER,
    "FrozenOpenCLIPEmbedder2": _ENCODER,
}
"""Class -> parameter -> why it has no effect. A value that asks for nothing (null, false) is dropped without a word."""


def idle(config: Config) -> Upgrade:
    """Every recipe without the parameters of `DROPPED`, each noted once with its reason."""
    notes: dict[str, None] = {}

    def bare(recipe: Config) -> Config:
        package, _, name = recipe["target"].rpartition(".")
        known = DROPPED.get(name, {}) if package.partition(".")[0] in ("ldm", "lun", "main") else {}
        given = at(recipe, "params")
        for key in known.keys() & given.keys():
            if _asks(given[key]):
                notes[f"{key}: {given[key]} of {recipe['target']} is ignored: {known[key]}"] = None
        return put(recipe, without(given, set(known)), "params") if known.keys() & given.keys() else recipe

    return Upgrade(rewrite(config, bare), tuple(notes))


def _asks(value: Any) -> bool:
    return value not in (None, False)
