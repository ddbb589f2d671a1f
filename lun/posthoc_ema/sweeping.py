"""`sweep`: a number of the validation, or of pictures, for each width and other average, to choose after training."""

import argparse
import csv
import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from ldm.ema.posthoc import Fit
from ldm.errors import Fault
from ldm.files.ema_snapshot import Snapshot
from ldm.files.replacing import replace_text
from ldm.lightning_classes import as_lightning
from ldm.models.run_context import RunContext
from ldm.shell import quoted
from ldm.util import instantiate_from_config
from lun.cli.arguments import Arguments
from lun.cli.user_code import admit_user_code
from lun.data.order.position_sampler import Window
from lun.features.score_names import SCORES
from lun.posthoc_ema.chart import Curve, draw
from lun.posthoc_ema.library import Library
from lun.posthoc_ema.reconstruction import Reconstruction
from lun.posthoc_ema.scored_pictures import ScoredPictures
from lun.posthoc_ema.wanted_averages import is_width
from lun.run.build_model import build_model
from lun.run.settings import read_settings
from lun.run_dir.resume import find_checkpoint
from lun.strategies.execution import settle_execution

METRIC = "val/loss_simple"
WIDTHS = (0.05, 0.1)
"""Where a level line is drawn if no width was asked for."""
PASSED_ON = ("accelerator", "precision", "limit_val_batches")


class Measures(Protocol):
    """What makes numbers of weights."""

    def numbers(self, name: str, weights: Mapping[str, Tensor]) -> dict[str, float]:
        """All numbers by their names, of the average `name`: weights by their names on disk."""


def sweep(
    arguments: argparse.Namespace, library: Library, snapshots: Sequence[Snapshot], fits: Mapping[str, Fit]
) -> None:
    """Measure each average with the same noise for all; write `<out>.csv`, `.json` and `.png`, tables as they grow.

    By what the run's validation logs, or by scores of pictures, which are kept in the folder `<out>`.
    """
    metric = arguments.metric or METRIC
    named = f"sweep-{metric}" if metric in SCORES else "sweep"
    stem = Path(arguments.out or library.folder / named).with_suffix("")
    files = [stem.with_suffix(end) for end in (".csv", ".json", ".png")]
    for path in files:
        if path.exists():
            raise Fault("CLI05", f"{path} exists", where="-o", why="nothing is overwritten", fix="-o another-name")
    measures = _measures(arguments, library.folder.parent, stem)
    found: dict[str, dict[str, float]] = {}
    with library.base() as base:
        for name, result in fits.items():
            weights = Reconstruction(base, snapshots, result.coefficients.tolist(), arguments.base_weight)
            found[name] = measures.numbers(name, weights)
            _require_metric(metric, found[name])
            print(f"  {name:<7} {metric} {found[name][metric]:.6f}")
            best = _write_tables(files[0], files[1], metric, found, fits)
    values = {name: numbers[metric] for name, numbers in found.items()}
    draw(files[2], _curves(metric, values), library.folder.resolve().parent.name, "width", metric, log_y=False)
    for path in files:
        print(f"written  {path}")
    if best is None:
        print(f"best     is yours to say: {metric} is high of copies, and low of pictures that are unlike the data")
    else:
        print(f"best     {'--width ' if is_width(best) else ''}{best}")


def _measures(arguments: argparse.Namespace, run: Path, stem: Path) -> Measures:
    if arguments.metric in SCORES:
        return ScoredPictures(arguments, run, stem)
    return Validation(run, arguments.allow)


def _require_metric(metric: str, numbers: Mapping[str, float]) -> None:
    if metric not in numbers:
        why = f"it logs {', '.join(sorted(numbers))}; of pictures there are {', '.join(SCORES)}"
        raise Fault(
            "CLI05", f"the validation has no {metric}", where="--metric", why=why, fix=f"--metric {quoted(METRIC)}"
        )


def _best(metric: str, values: Mapping[str, float]) -> str | None:
    """The average with the best value; None for a number of which neither more nor less is good."""
    better = SCORES[metric].better if metric in SCORES else "less"
    sign = {"more": -1.0, "less": 1.0}.get(better)
    return None if sign is None else min(values, key=lambda name: sign * values[name])


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
                fix="--metric clip_score --clip FOLDER, by pictures that are drawn",
            )
        self._model = build_model(config, use_ema=False)
        self._model.begin(RunContext(config["seed"], max_steps=1, resumed=True))
        self._data.follow(self._model.position, Window(self._data.batch_size, 1, 1), config["seed"], 1)
        from lightning.pytorch import Trainer

        self._trainer = Trainer(**_settings(settings.lightning("trainer")))
        self._model.configure_model()

    def numbers(self, name: str, weights: Mapping[str, Tensor]) -> dict[str, float]:
        """What the validation logs with these weights, by their names on disk."""
        self._model.load_state_dict(self._model.from_disk(dict(weights)))
        (metrics,) = self._trainer.validate(
            as_lightning(self._model), datamodule=as_lightning(self._data), verbose=False
        )
        return {name: float(value) for name, value in metrics.items()}


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: config[name] for name in PASSED_ON if name in config}
    return settle_execution(given | {"devices": 1}).trainer_arguments() | {
        "logger": False,
        "enable_progress_bar": False,
    }


def _write_tables(
    table: Path, document: Path, metric: str, found: Mapping[str, Mapping[str, float]], fits: Mapping[str, Fit]
) -> str | None:
    """Write what is known so far as CSV and JSON; the best average of it, if there can be one."""
    rows = list(_rows(metric, found, fits))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["width", metric, "profile_error", "weight_error"])
    writer.writerows(row.values() for row in rows)
    replace_text(table, text.getvalue())
    best = _best(metric, {name: numbers[metric] for name, numbers in found.items()})
    whole = [row | {"numbers": dict(found[row["average"]])} for row in rows]
    content = {"metric": metric, "best": best, "averages": whole}
    replace_text(document, json.dumps(content, indent=1) + "\n")
    return best


def _rows(metric: str, found: Mapping[str, Mapping[str, float]], fits: Mapping[str, Fit]) -> Iterator[dict[str, Any]]:
    for name, numbers in found.items():
        errors = {"profile_error": fits[name].profile_error, "weight_error": fits[name].weight_error}
        rounded = {key: float(f"{error:.6g}") for key, error in errors.items()}
        yield {"average": name, "value": float(f"{numbers[metric]:.8g}"), **rounded}
