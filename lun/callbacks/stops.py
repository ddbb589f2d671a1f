"""Ctrl-C, SIGTERM, SIGUSR1, SIGHUP, a time limit, on any rank: all finish the step, save, and exit by why they did."""

import logging
import signal
import threading
import time
from types import FrameType
from typing import Any

from ldm.lightning_classes import LightningModule, Trainer
from ldm.operating_system import STOPPING_SIGNALS
from lun.loop.boundary import AtStepBoundary
from lun.loop.deadline import END_SECONDS, end_within
from lun.loop.frames import awaits_a_batch, imports_a_module
from lun.loop.lightning_internals import give_back_after_fit, silence_sigterm
from lun.loop.rank_agreement import PATIENCE
from lun.loop.rank_failures import is_from_another_rank
from lun.loop.reminder import Reminder

log = logging.getLogger(__name__)

INTERRUPTED = 130
TERMINATED = 143
WAIT_SECONDS = 10.0
"""How long a stop waits for the batch that its step needs: schedulers kill what has not ended after 30 s."""

_CODES = {number: INTERRUPTED if name == "SIGINT" else TERMINATED for number, name in STOPPING_SIGNALS.items()}


class Stops(AtStepBoundary):
    """Turns a signal or the end of the allowed time into a stop at the next step boundary.

    It has to come after the savers, so that they act at that step, and before `FinalCheckpoint`. A second Ctrl-C ends
    the run at once, without saving: a KeyboardInterrupt, which Lightning turns into `SystemExit(1)`; ask `exit_code`.
    Before the first step (caches, sanity check) there is nothing to save, and the first one does so.

    A step that is to be finished may need a batch that never comes. From `WAIT_SECONDS` after the stop was asked for,
    or the time was over, no batch is waited for: a SystemExit, at which `FinalCheckpoint` saves the state before that
    step.

    A rank that fails says so where the others ask for stops, at their next step boundary. They then fail, too; if all
    stand at the same step, a checkpoint can still be written together. Others may never get there, since they wait
    for this rank's gradients: then it leaves without them, and its launcher ends them.

    time_limit   seconds from the start of the fit, validation and sampling included
    patience     seconds that a rank which failed waits for the others

    exit_code    0, or 130 (Ctrl-C) or 143 (SIGTERM, SIGUSR1, SIGHUP, time limit) once a stop was asked for
    asked_back   whether SIGUSR1 asked for it: a scheduler that wants to start the job again
    gave_up      whether the fit ended within a wait for a batch
    """

    doing = "waiting for ranks"

    def __init__(self, time_limit: float | None = None, patience: float = PATIENCE) -> None:
        self.time_limit = time_limit
        self.patience = patience
        self.exit_code = 0
        self.asked_back = False
        self.gave_up = False
        self._logged = False
        self._training = False
        self._started = time.monotonic()
        self._former: dict[int, Any] = {}
        self._deadline: threading.Timer | None = None
        self._reminder: Reminder | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_fit_start(trainer, pl_module)
        self._started = time.monotonic()
        self.agreement.patience = self.patience
        silence_sigterm(trainer)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self._training = False
        if threading.current_thread() is threading.main_thread():
            heard = [number for number in _CODES if signal.getsignal(number) != signal.SIG_IGN]  # nohup asks for that
            self._former = {number: signal.signal(number, self._note) for number in heard}
        if self._former:
            self._reminder = Reminder(next(iter(self._former)), self._may_leave)
            self._reminder.start()

    def on_sanity_check_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._take_over()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        give_back_after_fit(trainer, self._former)
        self._take_over()
        if self.exit_code:  # asked for meanwhile, where it could not be raised
            raise SystemExit(self.exit_code)
        self._training = True
        if self.time_limit is not None:
            self._remind_in(self._started + self.time_limit - time.monotonic() + WAIT_SECONDS)

    def _take_over(self) -> None:
        """Take the signals over from Lightning, which installed its own meanwhile."""
        for number in self._former:
            signal.signal(number, self._note)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._log_once()
        super().on_train_batch_start(trainer, pl_module, batch, batch_idx)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._log_once()

    def at_step(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> None:
        if final:
            self.exit_code = 0  # whatever was asked for meanwhile, the run is complete
            return
        if self.time_limit is not None and not self.exit_code and time.monotonic() - self._started >= self.time_limit:
            self.exit_code = TERMINATED
            log.info("the time limit of %.0f s is reached", self.time_limit)
        # Asked last, so that an error of any callback at this boundary is known to all before the step begins.
        agreed = self.agree_on(trainer, pl_module, step, self.exit_code)
        if not agreed:
            return
        self.exit_code = agreed
        self._log_once()
        trainer.should_stop = True
        # Ends the loop before this batch is trained on; should_stop alone would train on it and validate once more.
        raise StopIteration

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Notify the other ranks, unless it was from them that this one knows."""
        self._remind_no_more()
        wanted = isinstance(exception, KeyboardInterrupt | SystemExit)
        if trainer.world_size > 1 and not wanted and not is_from_another_rank(exception):
            log.warning("%s; notifying the other ranks (at most %.0f s) …", type(exception).__name__, self.patience)
            self.agreement.report_failure()

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.give_back()

    def _note(self, number: int, frame: FrameType | None) -> None:
        """The signal handler: only leaves a note, because it may interrupt anything, even half an optimizer step."""
        if self._reminder is not None and self._reminder.calls:
            self._reminder.calls = False
            if self._may_leave(frame):
                self._give_up()
            return
        if number == signal.SIGINT and self.exit_code == INTERRUPTED:
            self._deadline = end_within(END_SECONDS, INTERRUPTED)
            raise KeyboardInterrupt
        self.exit_code = _CODES[number]
        self.asked_back |= STOPPING_SIGNALS[number] == "SIGUSR1"
        if self._training:
            self._remind_in(WAIT_SECONDS)
        elif imports_a_module(frame):
            self._remind_in(0.0)
        else:  # no step to finish, and nothing to save
            raise SystemExit(self.exit_code)

    def _may_leave(self, frame: FrameType | None) -> bool:
        """Whether an exception in `frame` ends the fit, and costs no more than the step that waits for its batch."""
        return awaits_a_batch(frame) if self._training else not imports_a_module(frame)

    def _give_up(self) -> None:
        """Leave what the stop has waited for."""
        self.exit_code = self.exit_code or TERMINATED
        if self._training and not self.gave_up:
            log.warning("the next images do not come, and the stop waits no longer; what is done up to here stays")
            self.gave_up = True
        raise SystemExit(self.exit_code)

    def _log_once(self) -> None:
        if self.exit_code and not self._logged:
            self._logged = True
            again = " (again to quit without saving)" if self.exit_code == INTERRUPTED else ""
            log.info("stopping after this step, saving last.ckpt …%s", again)

    def give_back(self) -> None:
        """Let the signals mean what they meant before the fit; again, where Lightning put our handlers back.

        What a second Ctrl-C ends within seconds is the fit: a notebook that ran it goes on.
        """
        if self._deadline is not None:
            self._deadline.cancel()
        self._remind_no_more()
        for number, handler in self._former.items():
            if signal.getsignal(number) == self._note:
                signal.signal(number, handler)

    def _remind_no_more(self) -> None:
        if self._reminder is not None:
            self._reminder.cancel()

    def _remind_in(self, seconds: float) -> None:
        if self._reminder is not None:
            self._reminder.due_in(seconds)
