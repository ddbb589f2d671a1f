"""What a checkpoint brings back for a model's averaged weights."""

import logging
from typing import Any

from ldm.ema.checkpoint_state import Rename
from ldm.ema.lit_ema import LitEma
from ldm.ema.schedule_free import ScheduleFree

log = logging.getLogger(__name__)

COUNTERS = {"decay", "num_updates"}


def restore(ema: LitEma | ScheduleFree, stored: dict[str, Any], step: int, names: Rename, to_disk: Rename) -> None:
    """Let an average go on from a checkpoint of `step`, or from the raw weights where that holds none.

    stored   `weights`, without `model_ema.`, and `resume`, the `resume_state` or None in files of other programs
    """
    weights, resume = stored["weights"], stored["resume"]
    averaged = bool(weights.keys() - COUNTERS)
    if not averaged and (resume is None or "start" not in resume):
        log.warning("the checkpoint holds no EMA weights; the EMA starts from the raw weights at step %d", step)
        ema.reset(step)
        return
    if averaged:
        ema.load_state_dict(weights, rename=names)
    here = {"step": step, "last_update": step, "update_every": ema.update_every}
    ema.load_resume_state(resume or here, rename=to_disk)  # files of 2022 count otherwise
