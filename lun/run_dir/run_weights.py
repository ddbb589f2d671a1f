"""Runs of this program as a source of weights: a run directory means its newest whole checkpoint."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lun.run_dir.resume import find_checkpoint

log = logging.getLogger(__name__)


def with_named_checkpoints(model: Mapping[str, Any]) -> dict[str, Any]:
    """`model` with the checkpoint in the place of each `ckpt_path` that is a run directory, at any depth.

    So the run that starts from it stores which file that was. Raises `Fault` RES01 if the run has none.
    """
    return {key: _named(key, value) for key, value in model.items()}


def _named(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        return with_named_checkpoints(value)
    if key != "ckpt_path" or not isinstance(value, str) or not (Path(value) / "configs").is_dir():
        return value
    resume = find_checkpoint(value)
    log.info("weights  %s of %s, step %d", resume.resumed_from, value, resume.step)
    return str(resume.checkpoint)
