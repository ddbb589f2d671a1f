"""The one moment at which savers, samplers and stops act: between two optimizer steps, after a validation due there."""

from typing import Any

from ldm.lightning_classes import Callback, LightningModule, Trainer
from lun.loop.contract import step_of
from lun.loop.rank_agreement import RankAgreement


class AtStepBoundary(Callback):
    """Calls `at_step` once for every value of `pl_module.position.step`, that at which a process starts included.

    The moment is the next `on_train_batch_start` after a completed accumulation window, so that a validation due at
    that step has run; for the last step it is `on_train_end`, with `final=True`. All ranks call it at the same step.

    What one rank alone knows (a clock, a file, a signal) it says in `vote`; `at_step` finds in `agreed` the largest of
    all ranks' votes. With one rank that is what it says then. With several, all that all callbacks have to say is
    exchanged once a boundary, by `agree_on`, at its end: errors of a callback reach the others before they train on,
    and what is voted there is found at the next boundary.

    first      true while `at_step` runs for the step at which this process started (0, or the resumed one)
    agreement  the one of all these callbacks of a trainer, from the start of the fit on
    """

    first: bool = False
    agreed: int = 0
    agreement: RankAgreement = RankAgreement()
    _seen: int | None = None

    def at_step(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> None:
        """Act on `step` completed optimizer steps; `final` says that no further step follows."""
        raise NotImplementedError

    def vote(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> int:
        """What this rank has to say: 0 or more."""
        return 0

    def agree_on(self, trainer: Trainer, pl_module: LightningModule, step: int, number: int) -> int:
        """The largest of the ranks' numbers at the boundary of `step`; carries the votes about the next one, too."""
        if self.agreement.alone:
            return number
        votes = [one.vote(trainer, pl_module, step, False) for one in _voters(trainer)]
        return self.agreement.largest_and_votes(number, step + 1, votes)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._seen = None
        first = _all(trainer)[:1]
        if first in ([], [self]):
            self.agreement = RankAgreement()
            self.agreement.join(trainer, pl_module, votes=len(_voters(trainer)))
        else:
            self.agreement = first[0].agreement

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._arrive(trainer, pl_module, final=False)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._arrive(trainer, pl_module, final=True)

    def _arrive(self, trainer: Trainer, pl_module: LightningModule, final: bool) -> None:
        step = step_of(pl_module)
        if step == self._seen:
            return
        self.first, self._seen = self._seen is None, step
        alone = self.agreement.alone
        self.agreed = (
            self.vote(trainer, pl_module, step, final) if alone else self._agreed(trainer, pl_module, step, final)
        )
        self.at_step(trainer, pl_module, step, final)

    def _agreed(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> int:
        voters = _voters(trainer)
        if self.first or not voters:
            return 0
        votes = self.agreement.votes(step, lambda: [one.vote(trainer, pl_module, step, final) for one in voters])
        return votes[voters.index(self)] if self in voters else 0


def agreement_of(trainer: Trainer) -> RankAgreement | None:
    """The one that a trainer's `AtStepBoundary`s share, for who asks at another moment; None where there is none."""
    return next((callback.agreement for callback in _all(trainer)), None)


def _all(trainer: Trainer) -> list[AtStepBoundary]:
    callbacks: list[Callback] = getattr(trainer, "callbacks", [])
    return [callback for callback in callbacks if isinstance(callback, AtStepBoundary)]


def _voters(trainer: Trainer) -> list[AtStepBoundary]:
    return [callback for callback in _all(trainer) if type(callback).vote is not AtStepBoundary.vote]
