"""How long a run is going to take, by the last run on this machine whose steps compute the same."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.operating_system import is_folder_link
from lun.report.curves import glance
from lun.run.length import NO_LIMIT
from lun.run_dir.config_changes import readable_settings
from lun.run_dir.directory import RunDirectory

RUNS = 20
"""The newest runs, which are looked at."""
TRAINER = ("accelerator", "devices", "num_nodes", "strategy", "precision", "accumulate_grad_batches", "benchmark")
DATA = ("batch_size", "buckets", "cache", "num_workers")
NOT_OF_A_STEP = ("scheduler_config", "ema_config")


@dataclass(frozen=True)
class EarlierPace:
    """Seconds of a step, saves and samples shared out over the steps, and the run in which they were measured."""

    seconds_a_step: float
    run: str

    def describe(self, steps: int) -> str:
        """`2 min at 0.13 s a step, as run 2026-11-20T11-13-02_demo took`."""
        how = f"{self.seconds_a_step:.2g} s a step, as {self.run} took, saves and samples included"
        return how if steps == NO_LIMIT else f"{duration(steps * self.seconds_a_step)} at {how}"


def measured_before(config: Mapping[str, Any], logdir: Path) -> EarlierPace | None:
    """What the newest run in `logdir` took that trains the same networks on the same devices in the same batches."""
    wanted = step_settings(config)
    runs = sorted((path for path in logdir.glob("*/metrics.jsonl") if not is_folder_link(path.parent)), reverse=True)
    for file in runs[:RUNS]:
        seconds = glance(file.parent).seconds_a_step
        if seconds is None:
            continue
        stored = readable_settings(RunDirectory(file.parent).resolved_config)
        if stored is not None and step_settings(stored) == wanted:
            return EarlierPace(seconds, file.parent.name)
    return None


def step_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Of a configuration what decides how long a step takes."""
    model, data = _map(config.get("model")), _map(_map(config.get("data")).get("params"))
    params, trainer = _map(model.get("params")), _map(_map(config.get("lightning")).get("trainer"))
    networks = {name: value for name, value in params.items() if name.endswith("_config") and name not in NOT_OF_A_STEP}
    train = _map(data.get("train"))
    sets = _map(train.get("sets")) or {"": train}
    return {
        "model": [model.get("target"), networks],
        "data": {name: data.get(name) for name in DATA},
        "sizes": [_map(_map(one).get("params")).get("size") for one in sets.values()],
        "trainer": {name: trainer.get(name) for name in TRAINER},
    }


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3.5 h`, `2.1 days`."""
    for size, unit in ((86400, "days"), (3600, "h")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
