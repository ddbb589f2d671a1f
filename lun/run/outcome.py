"""How a fit ended: its exit code, what `run.json` keeps of it, and what a person reads."""

import logging
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ldm.errors import Fault
from ldm.lightning_classes import LightningModule, Trainer
from ldm.shell import quoted
from lun.callbacks.stops import Stops
from lun.console import log as console
from lun.console.blame import fault_of
from lun.console.fault_report import OUR_FAULT, exit_code
from lun.console.out_of_memory import is_out_of_memory, out_of_memory
from lun.data.loader import lost_worker
from lun.data.order.position_sampler import Window
from lun.loop.rank_failures import is_from_another_rank, rank_failure
from lun.program import as_started
from lun.report.renewal import renew
from lun.report.run_page import FILE as PAGE
from lun.run.run_loggers import close_loggers
from lun.run_dir.directory import RunDirectory
from lun.run_dir.requeue import requeue
from lun.run_dir.run_json import RunRecord

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class FitOutcome:
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
            with self:
                fit()
        except SystemExit as left:  # what Lightning makes of a second Ctrl-C, or a signal before the first step
            code = self.stops.exit_code or (left.code if isinstance(left.code, int) else OUR_FAULT)
            self._close("stopped", code)
            if self.stops.gave_up:
                self._log_end(code, time.monotonic() - began)
            self._ask_back()
            return code
        finally:
            self.stops.give_back()
        code = self.stops.exit_code
        self._close("stopped" if code else "done", code)
        self._log_end(code, time.monotonic() - began)
        if code:
            self._ask_back()
        return code

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Write down an error that ends the fit, and put it in words where it has any; it is raised again."""
        if error is None or isinstance(error, SystemExit):
            return
        fault = self._fault_of(error)
        self._close("failed", exit_code(fault) if fault else OUR_FAULT)
        if fault is not None and fault is not error:
            raise fault from error

    def _ask_back(self) -> None:
        if self.stops.asked_back and self.trainer.is_global_zero:
            requeue()

    def _fault_of(self, error: BaseException) -> Fault | None:
        if isinstance(error, Fault):
            return error
        if fault := lost_worker(error):
            return fault
        if is_out_of_memory(error):
            return out_of_memory(self.trainer, self.model, self.window.batch_size, self.window.accumulate)
        if self.trainer.world_size > 1 and is_from_another_rank(error):
            return rank_failure(self.run.path, self.trainer.global_rank)
        if fault := fault_of(error):
            console.to_file_alone("".join(traceback.format_exception(error)))
            return fault
        return None

    def _close(self, status: str, code: int) -> None:
        """Write down the end; a disk that takes no note changes neither how the run ended nor what is said of it."""
        if not self.trainer.is_global_zero:
            return
        ended = datetime.now().isoformat(timespec="seconds")
        warnings = console.warning_counts()
        steps = self.model.position.step
        record = replace(self.started, status=status, exit_code=code, ended=ended, steps=steps, warnings=warnings)
        try:
            self.run.write_record(record)
        except OSError as error:
            log.warning("run.json still says that the run goes on: %s", error.strerror or error)
        renew(self.run.path, writing=True)
        close_loggers(self.trainer.loggers, code)

    def _log_end(self, code: int, seconds: float) -> None:
        took = str(timedelta(seconds=round(seconds)))
        if summary := console.warning_summary():
            log.info("%s", summary)
        log.info("%-8s %d steps, %s, exit code %d", "stopped" if code else "done", self.model.position.step, took, code)
        for page in (self.run.images / "samples" / "timeline.png", self.run.path / PAGE):
            if page.exists():
                log.info("look     %s", page)
        if code:
            log.info("go on    %s", as_started(f"python main.py -r {quoted(self.run.path)} -t"))
