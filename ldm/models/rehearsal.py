"""Optimizer, schedule and EMA built on a single number, so that what they refuse is told before anything is written."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from ldm.models.base import TrainedModel
from ldm.util import Recipe, instantiate_from_config

CHEAP = ("torch.optim.", "ldm.")
"""What is built within no time; others may compile something first."""


def rehearse(model: TrainedModel, max_steps: int, global_batch: int) -> None:
    """Raise the `Fault` with which a run of `max_steps` steps would begin for settings that cannot be."""
    number = nn.Parameter(torch.zeros(1))
    with _in_silence():
        if _is_cheap(model.optimizer_config):
            instantiate_from_config(model.optimizer_config, [number], lr=model.learning_rate)
        if model.scheduler_config is not None and _is_cheap(model.scheduler_config):
            instantiate_from_config(model.scheduler_config)
        if model.use_ema and _is_cheap(model.ema_config):
            decay = {} if model.ema_decay is None else {"decay": model.ema_decay}
            length = {"total_steps": max_steps if max_steps > 0 else None, "examples_per_step": global_batch}
            instantiate_from_config(model.ema_config, {"number": number}, **length, **decay)


def _is_cheap(recipe: Recipe) -> bool:
    return str(recipe.get("target", "")).startswith(CHEAP)


@contextmanager
def _in_silence() -> Iterator[None]:
    """What is said now would be said again when they are built in earnest."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
