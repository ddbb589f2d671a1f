"""`sweep`: a number of the validation for each width and other average, so that one is chosen after training."""

import argparse
import csv
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer

from ldm.ema.posthoc import Fit
from ldm.errors import Fault
from ldm.files.ema_snapshot import Snapshot
from ldm.models.run_context import RunContext
from ldm.shell import quoted
from ldm.util import instantiate_from_config
from lun.cli.arguments import Arguments
from lun.cli.user_code import admit_user_code
from lun.data.order.position_sampler import Window
from lun.posthoc_ema.chart import Curve, draw
from lun.posthoc_ema.library import Library
from lun.posthoc_ema.reconstruction import Reconstruction
from lun.posthoc_ema.wanted_averages import is_width
from lun.run.build_model import build_model
from lun.run.settings import read_settings
from lun.run_dir.resume import find_checkpoint
from lun.strategies.execution import settle_execution

METRIC = "val/loss_simple"
WIDTHS = (0.05, 0.1)
"""Where a level line is drawn if no width was asked for."""
PASSED_ON = ("accelerator", "precision", "limit_val_batches")


def sweep(
    arguments: argparse.Namespace, library: Library, snapshots: Sequence[Snapshot], fits: Mapping[str, Fit]
) -> None:
    """Validate each average as the run would, with the same noise for all; write `<out>.csv`, `.json` and `.png`."""
    stem = Path(arguments.out or library.folder / "sweep").with_suffix("")
    metric = arguments.metric or METRIC
    files = [stem.with_suffix(end) for end in (".csv", ".json", ".png")]
    for path in files:
        if path.exists():
            raise Fault("CLI05", f"{path} exists", where="-o", why="nothing is overwritten", fix="-o another-name")
    validation = Validation(library.folder.parent, arguments.allow)
    values: dict[str, float] = {}
    with library.base() as base:
        for name, result in fits.items():
            weights = Reconstruction(base, snapshots, result.coefficients.tolist(), arguments.base_weight)
            values[name] = validation.number(weights, metric)
            print(f"  {name:<7} {metric} {values[name]:.6f}")
    best = min(values, key=lambda name: values[name])
    rows = list(_rows(values, fits))
    _write(files[0], metric, rows)
    files[1].write_text(
        json.dumps({"metric": metric, "best": best, "averages": rows}, indent=1) + "\n", encoding="utf-8"
    )
    draw(files[2], _curves(metric, values), library.folder.resolve().parent.name, "width", metric, log_y=False)
    for path in files:
        print(f"written  {path}")
    print(f"best     {'--width ' if is_width(best) else ''}{best}")


def _curves(metric: str, values: Mapping[str, float]) -> list[Curve]:
    """The metric over the width, and a level line for each other average."""
    over = sorted((float(name), value) for name, value in values.items() if is_width(name))
    ends = (over[0][0], over[-1][0]) if len(over) > 1 else WIDTHS
    width = [Curve(metric, *map(list, zip(*over, strict=True)))] if over else []
    return width + [Curve(name, ends, (value, value)) for name, value in values.items() if not is_width(name)]


class Validation:
    """The model and the validation set of a run, as its stored configuration describes them."""

    def __init__(self, run: Path, allow: Sequence[str] = ()) -> None:
        logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
        admit_user_code(allow)
        resume = find_checkpoint(str(run))
        settings = read_settings(Arguments(resume=str(run)), resume)
        config = settings.config
        self._data = instantiate_from_config(config["data"])
        self._data.setup("fit")
        if not self._data.has("validation"):
            raise Fault(
                "DAT02",
                f"{run} has no validation set to choose a width by",
                where=str(resume.run.resolved_config),
                fix="reconstruct without --sweep, and compare samples",
            )
        self._model = build_model(config, use_ema=False)
        self._model.begin(RunContext(config["seed"], max_steps=1, resumed=True))
        self._data.follow(self._model.position, Window(self._data.batch_size, 1, 1), config["seed"], 1)
        self._trainer = Trainer(**_settings(settings.lightning("trainer")))
        self._model.configure_model()

    def number(self, weights: Mapping[str, Any], metric: str = METRIC) -> float:
        """What the validation logs as `metric` with these weights: names as on disk. Raises `Fault` CLI05."""
        self._model.load_state_dict(self._model.from_disk(dict(weights)))
        (metrics,) = self._trainer.validate(self._model, datamodule=self._data, verbose=False)
        if metric not in metrics:
            why = f"it logs {', '.join(sorted(metrics))}"
            raise Fault(
                "CLI05", f"the validation has no {metric}", where="--metric", why=why, fix=f"--metric {quoted(METRIC)}"
            )
        return float(metrics[metric])


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: config[name] for name in PASSED_ON if name in config}
    return settle_execution(given | {"devices": 1}).trainer_arguments() | {
        "logger": False,
        "enable_progress_bar": False,
    }


def _write(path: Path, metric: str, rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["width", metric, "profile_error", "weight_error"])
        writer.writerows(row.values() for row in rows)


def _rows(values: Mapping[str, float], fits: Mapping[str, Fit]) -> Iterator[dict[str, Any]]:
    for name, value in values.items():
        errors = {"profile_error": fits[name].profile_error, "weight_error": fits[name].weight_error}
        yield {"average": name, "value": float(f"{value:.8g}"), **{key: float(f"{e:.6g}") for key, e in errors.items()}}
