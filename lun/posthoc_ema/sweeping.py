"""`reconstruct --sweep`: the validation loss over the width, so that it is chosen after training."""

import argparse
import csv
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer

from ldm.ema.posthoc import Fit
from ldm.errors import Fault
from ldm.files.ema_snapshot import Snapshot
from ldm.models.run_context import RunContext
from ldm.util import instantiate_from_config
from lun.cli.arguments import Arguments
from lun.cli.user_code import admit_user_code
from lun.data.order.position_sampler import Window
from lun.posthoc_ema.chart import Curve, draw
from lun.posthoc_ema.library import Library
from lun.posthoc_ema.reconstruction import Reconstruction
from lun.run.build_model import build_model
from lun.run.settings import read_settings
from lun.run_dir.resume import find_checkpoint
from lun.strategies.execution import settle_execution

METRIC = "val/loss_simple"
PASSED_ON = ("accelerator", "precision", "limit_val_batches")


def sweep(
    arguments: argparse.Namespace, library: Library, snapshots: Sequence[Snapshot], fits: Mapping[float, Fit]
) -> None:
    """Validate each width as the run itself would, with the same noise for all; write `<out>.csv` and `<out>.png`."""
    stem = Path(arguments.out or library.folder / "sweep").with_suffix("")
    table, picture = stem.with_suffix(".csv"), stem.with_suffix(".png")
    for path in (table, picture):
        if path.exists():
            raise Fault("CLI05", f"{path} exists", where="-o", why="nothing is overwritten", fix="-o another-name")
    validation = Validation(library.folder.parent, arguments.allow)
    losses: dict[float, float] = {}
    with library.base() as base:
        for width, result in fits.items():
            weights = Reconstruction(base, snapshots, result.coefficients.tolist(), arguments.base_weight)
            losses[width] = validation.loss(weights)
            print(f"  {width:<7.4g} {METRIC} {losses[width]:.6f}")
    _write(table, losses, fits)
    curve = Curve(METRIC, list(losses), list(losses.values()))
    draw(picture, [curve], library.folder.resolve().parent.name, "width", METRIC, log_y=False)
    best = min(losses, key=lambda width: losses[width])
    print(f"written  {table}\nwritten  {picture}\nbest     --width {best:g}")


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

    def loss(self, weights: Mapping[str, Any]) -> float:
        """The loss with these weights: names as on disk."""
        self._model.load_state_dict(self._model.from_disk(dict(weights)))
        (metrics,) = self._trainer.validate(self._model, datamodule=self._data, verbose=False)
        return float(metrics[METRIC])


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: config[name] for name in PASSED_ON if name in config}
    return settle_execution(given | {"devices": 1}).trainer_arguments() | {
        "logger": False,
        "enable_progress_bar": False,
    }


def _write(path: Path, losses: Mapping[float, float], fits: Mapping[float, Fit]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["width", METRIC, "profile_error", "weight_error"])
        writer.writerows(_rows(losses, fits))


def _rows(losses: Mapping[float, float], fits: Mapping[float, Fit]) -> Iterator[list[str]]:
    for width, loss in losses.items():
        yield [f"{width:g}", f"{loss:.8g}", f"{fits[width].profile_error:.6g}", f"{fits[width].weight_error:.6g}"]
