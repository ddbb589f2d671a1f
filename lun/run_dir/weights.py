"""Runs of this program as a source of weights: a run directory means its newest whole checkpoint."""

import logging
from pathlib import Path
from typing import Any

from lun.run_dir.resume import find_checkpoint

log = logging.getLogger(__name__)


def name_checkpoints(model: dict[str, Any]) -> None:
    """Replace, in place and at any depth, each `ckpt_path` that is a run directory by the checkpoint that it means.

    So the run that starts from it stores which file that was. Raises `Fault` RES01 if the run has none.
    """
    for key, value in model.items():
        if isinstance(value, dict):
            name_checkpoints(value)
        elif key == "ckpt_path" and isinstance(value, str) and (Path(value) / "configs").is_dir():
            found = find_checkpoint(value)
            log.info("weights  %s of %s, step %d", found.resumed_from, value, found.step)
            model[key] = str(found.checkpoint)
