"""How a fit ended: its exit code, what `run.json` keeps of it, and what a person is told."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lightning.pytorch import LightningModule, Trainer

from ldm.errors import Fault
from lun.callbacks.stops import Stops
from lun.data.sampler import Window
from lun.launch import log as console
from lun.launch.memory import is_out_of_memory, out_of_memory
from lun.launch.record import RunRecord
from lun.launch.report import OUR_FAULT, exit_code
from lun.launch.requeue import requeue
from lun.launch.rundir import RunDirectory

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """Watches one fit of `run`, whose start was recorded as `started`."""

    run: RunDirectory
    started: RunRecord
    stops: Stops
    model: LightningModule
    trainer: Trainer
    window: Window

    def of(self, fit: Callable[[], None]) -> int:
        """Carry out `fit` and write down how it ended; what it raises is raised again."""
        began = time.monotonic()
        try:
            fit()
        except SystemExit:  # what Lightning makes of a second Ctrl-C
            self._close("stopped", self.stops.exit_code or OUR_FAULT)
            return self.stops.exit_code or OUR_FAULT
        except BaseException as error:
            fault = self._fault_of(error)
            self._close("failed", exit_code(fault) if fault else OUR_FAULT)
            if fault is None or fault is error:
                raise
            raise fault from error
        code = self.stops.exit_code
        self._close("stopped" if code else "done", code)
        self._tell(code, time.monotonic() - began)
        if code and self.stops.asked_back and self.trainer.is_global_zero:
            requeue()
        return code

    def _fault_of(self, error: BaseException) -> Fault | None:
        if isinstance(error, Fault) or not is_out_of_memory(error):
            return error if isinstance(error, Fault) else None
        return out_of_memory(self.trainer, self.model, self.window.batch_size, self.window.accumulate)

    def _close(self, status: str, code: int) -> None:
        if not self.trainer.is_global_zero:
            return
        ended = datetime.now().isoformat(timespec="seconds")
        warnings = console.warning_counts()
        steps = self.model.position.step
        self.run.write_record(
            replace(self.started, status=status, exit_code=code, ended=ended, steps=steps, warnings=warnings)
        )

    def _tell(self, code: int, seconds: float) -> None:
        took = str(timedelta(seconds=round(seconds)))
        if summary := console.warning_summary():
            log.info("%s", summary)
        log.info("%-8s %d steps, %s, exit code %d", "stopped" if code else "done", self.model.position.step, took, code)
        if (strip := self.run.images / "samples" / "timeline.png").exists():
            log.info("look     %s", strip)
        if code:
            log.info("go on    python main.py -r %s -t", self.run.path)
