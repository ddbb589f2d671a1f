"""The schedule of another program's run."""

from collections.abc import Mapping
from typing import Any

from lun.migrate.draft import Draft
from lun.other_trainers.answers import SCHEDULES

CONSTANT = "constant"


def known_schedule(draft: Draft, setting: str, name: str) -> str:
    """The schedule, where there is one of that name; else it is noted that `setting` asked for it, and constant."""
    if name in SCHEDULES:
        return name
    draft.note("none", f"{setting} = {name}: constant; any `step -> factor` is a schedule")
    return CONSTANT


def lay_schedule(
    draft: Draft, name: str, params: Mapping[str, Any], cycles: int | None = None, comment: str = ""
) -> None:
    """Write the recipe of a known schedule; `cycles` are those of restarts."""
    own = {**params, "cycles": cycles} if name == "cosine_with_restarts" and cycles is not None else dict(params)
    recipe = {"target": f"ldm.lr_scheduler.{SCHEDULES[name]}", "params": own}
    draft.set("model.params.scheduler_config", recipe, comment)
