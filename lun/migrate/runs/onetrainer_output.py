"""What OneTrainer's settings say of samples and of files that are saved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lun.migrate.draft import Draft
from lun.migrate.foreign import Taken, listed
from lun.other_trainers.counterparts import CALLBACKS

_SOLVERS = {"DDIM": "ddim", "EULER": "euler", "EULER_KARRAS": "euler", "DPMPP": "dpmpp", "DPMPP_KARRAS": "dpmpp"}


def draw_samples(taken: Taken, draft: Draft, samples: Any, beside: Path) -> None:
    """How often pictures are drawn, and of what: `samples`, or those of the file that is named."""
    name = taken.text("sample_definition_file_name") or "training_samples/samples.json"
    samples = listed(name, beside) or [] if samples is None else samples
    after, unit = taken.number("sample_after", 10), str(taken("sample_after_unit", "MINUTE"))
    if unit == "STEP":
        draft.set(f"{CALLBACKS}.image_logger.params.batch_frequency", int(after))
    else:
        steps = f"{CALLBACKS}.image_logger.params.batch_frequency=500"
        draft.note("same", f"sample_after = {after:g} {unit}: by steps, `{steps}`")
    prompts = [_prompt(one) for one in samples if one.get("enabled", True)]
    if prompts:
        draft.set(f"{CALLBACKS}.image_logger.params.prompts", prompts)


def _prompt(sample: Mapping[str, Any]) -> dict[str, Any]:
    """One of its samples, as a prompt says it."""
    said = {
        "prompt": sample.get("prompt", ""),
        "negative": sample.get("negative_prompt") or None,
        "width": sample.get("width"),
        "height": sample.get("height"),
        "seed": None if sample.get("random_seed") else sample.get("seed"),
        "steps": sample.get("diffusion_steps"),
        "guidance": sample.get("cfg_scale"),
        "scheduler": _SOLVERS.get(str(sample.get("noise_scheduler"))),
    }
    return {name: value for name, value in said.items() if value is not None}


def save(taken: Taken, draft: Draft) -> None:
    """Its backups are what to go on from, its saves what stays."""
    after, unit = taken.number("backup_after", 30), str(taken("backup_after_unit", "MINUTE"))
    place = f"{CALLBACKS}.periodic_checkpoint_overwrite.params"
    minutes = {"SECOND": 1 / 60, "MINUTE": 1, "HOUR": 60}
    if unit in minutes and after:
        draft.set(f"{place}.every_minutes", max(1, round(after * minutes[unit])))
    elif unit == "STEP" and after:
        draft.set(f"{place}.every_n_train_steps", int(after))
    every, unit = taken.number("save_every"), str(taken("save_every_unit", "NEVER"))
    if unit == "STEP" and every:
        draft.set(f"{CALLBACKS}.periodic_checkpoint.params.every_n_train_steps", int(every))
    elif unit not in ("NEVER", "STEP") and every:
        steps = f"{CALLBACKS}.periodic_checkpoint.params.every_n_train_steps=1000"
        draft.note("same", f"save_every = {every:g} {unit}: by steps, `{steps}`")
