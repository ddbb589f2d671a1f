"""Ctrl-C, SIGTERM, SIGUSR1 and a time limit: finish the step, save, and say by the exit code what it was."""

import logging
import signal
import threading
import time
from types import FrameType
from typing import Any

from lightning.pytorch import LightningModule, Trainer

from lun.callbacks.agreement import Agreement
from lun.callbacks.boundary import AtStepBoundary
from lun.callbacks.seating import silence_sigterm_broadcast

log = logging.getLogger(__name__)

INTERRUPTED = 130
TERMINATED = 143

_CODES = {
    getattr(signal, name): code
    for name, code in (("SIGINT", INTERRUPTED), ("SIGTERM", TERMINATED), ("SIGUSR1", TERMINATED))
    if hasattr(signal, name)
}


class Stops(AtStepBoundary):
    """Turns a signal or the end of the allowed time into a stop at the next step boundary.

    It has to come after the savers, so that they act at that step, and before `FinalCheckpoint`. A second Ctrl-C ends
    the run at once, without saving: a KeyboardInterrupt, which Lightning turns into `SystemExit(1)`; ask `exit_code`.

    time_limit   seconds from the start of the fit, validation and sampling included

    exit_code    0, or 130 (Ctrl-C) or 143 (SIGTERM, SIGUSR1, time limit) once a stop was asked for
    asked_back   whether SIGUSR1 asked for it: a scheduler that wants to start the job again
    """

    def __init__(self, time_limit: float | None = None) -> None:
        self.time_limit = time_limit
        self.exit_code = 0
        self.asked_back = False
        self._told = False
        self._started = time.monotonic()
        self._former: dict[int, Any] = {}
        self._agreement = Agreement()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_fit_start(trainer, pl_module)
        self._started = time.monotonic()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take the signals over from Lightning, which installs its own just before."""
        self._agreement.join(trainer)
        silence_sigterm_broadcast(trainer)
        if threading.current_thread() is threading.main_thread():
            self._former = {number: signal.signal(number, self._note) for number in _CODES}

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._tell()
        super().on_train_batch_start(trainer, pl_module, batch, batch_idx)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._tell()

    def at_step(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> None:
        if final:
            self.exit_code = 0  # whatever was asked for meanwhile, the run is complete
            return
        if self.time_limit is not None and not self.exit_code and time.monotonic() - self._started >= self.time_limit:
            self.exit_code = TERMINATED
            log.info("the time limit of %.0f s is reached", self.time_limit)
        agreed = self.agree(self.exit_code)
        if not agreed:
            return
        self.exit_code = agreed
        self._tell()
        trainer.should_stop = True
        # Ends the loop before this batch is trained on; should_stop alone would train on it and validate once more.
        raise StopIteration

    def agree(self, number: int) -> int:
        """The largest of the ranks' numbers, at a step boundary: whoever else decides something there asks here."""
        return self._agreement.largest(number)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._give_back()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._give_back()

    def _note(self, number: int, frame: FrameType | None) -> None:
        """The signal handler: only leaves a note, because it may interrupt anything, even half an optimizer step."""
        if number == signal.SIGINT and self.exit_code == INTERRUPTED:
            raise KeyboardInterrupt
        self.exit_code = _CODES[signal.Signals(number)]
        self.asked_back |= signal.Signals(number).name == "SIGUSR1"

    def _tell(self) -> None:
        if self.exit_code and not self._told:
            self._told = True
            again = " (again to quit without saving)" if self.exit_code == INTERRUPTED else ""
            log.info("stopping after this step, saving last.ckpt …%s", again)

    def _give_back(self) -> None:
        """Undo `on_train_start`, unless Lightning has put back what was there before itself."""
        for number, handler in self._former.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, handler)
        self._former = {}
