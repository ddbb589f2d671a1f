"""When the page of a run is written anew."""

import logging
from pathlib import Path
from typing import Any

from ldm.lightning_classes import LightningModule, Trainer
from lun.callbacks.images import ImageLogger
from lun.loop.boundary import AtStepBoundary
from lun.report.run_page import FILE, write_page
from lun.report.sample_tiles import TileCache

log = logging.getLogger(__name__)


def renew(run: Path, cache: TileCache | None = None, writing: bool = False) -> None:
    """Write the page of a run; one that cannot be made costs a warning, never the run."""
    try:
        write_page(run, cache or TileCache(), writing)
    except Exception as error:  # whatever is wrong with a page, training and its saves come first
        log.warning("%s could not be written: %s", FILE, error, exc_info=log.isEnabledFor(logging.DEBUG))


class RunPage(AtStepBoundary):
    """Writes `report.html` on rank 0 whenever pictures were sampled or a validation ended.

    Comes after whoever samples. It reads files of the run alone, so that training is not touched.
    """

    doing = "writing the page"

    def __init__(self, run: Path) -> None:
        super().__init__()
        self.run = run
        self._cache = TileCache()
        self._validated = False

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._validated = not trainer.sanity_checking

    def at_step(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> None:
        callbacks: list[Any] = trainer.callbacks
        drawn = step in [one.drawn_at for one in callbacks if isinstance(one, ImageLogger)]
        due, self._validated = drawn or self._validated, False
        if due and not final and trainer.is_global_zero:  # at the end it is written once more is known
            renew(self.run, self._cache, writing=True)
