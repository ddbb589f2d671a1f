"""What Lightning does not promise and the program needs, in one place. Tried with Lightning 2.6.6.

Its inner counters are set once, at the start, where training stands. Lightning's own progress is never saved nor
restored: over chains of resumes it drifts. Three totals are enough for its intervals (validation, logging, the end of
the run) to follow ours. What models need of it stands in `ldm.lightning_internals`.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from ldm.errors import Fault
from ldm.lightning_classes import LightningModule, Trainer
from ldm.missing_packages import install_line

if TYPE_CHECKING:
    from lightning.pytorch.strategies.strategy import _ForwardRedirection as ForwardRedirection

__all__ = ["ForwardRedirection"]  # what calls a step through a strategy's wrapper of the module

EPOCH_LOOP = "fit_loop.epoch_loop"
BATCHES = f"{EPOCH_LOOP}.batch_progress.total"
AUTOMATIC_STEPS = f"{EPOCH_LOOP}.automatic_optimization.optim_progress.optimizer.step.total"
MANUAL_STEPS = f"{EPOCH_LOOP}.manual_optimization.optim_step_progress.total"
STEPPED = f"{EPOCH_LOOP}._batches_that_stepped"
SIGTERM_BROADCAST = f"{EPOCH_LOOP}._broadcast_sigterm_tensor"
SIGTERM_NOTICE = "_signal_connector._sigterm_notifier_fn"
SIGNALS_BEFORE = "_signal_connector._original_handlers"
DUMP = "_checkpoint_connector.dump_checkpoint"


def __getattr__(name: str) -> Any:
    """`ForwardRedirection`, by importing Lightning for it."""
    if name != "ForwardRedirection":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lightning.pytorch.strategies.strategy import _ForwardRedirection

    return _ForwardRedirection


def inside(trainer: Trainer, path: str) -> Any:
    """The object at a dotted path below `trainer`; `Fault` DEP01 where this Lightning has none."""
    try:
        return attrgetter(path)(trainer)
    except AttributeError as error:
        import lightning

        raise Fault(
            "DEP01",
            f"lightning {lightning.__version__} does not fit",
            why=f"its Trainer has no {path}; the program was tried with 2.6.6",
            fix=install_line("lightning"),
        ) from error


def micro_batches(trainer: Trainer, pl_module: LightningModule) -> int:
    """Micro-batches in an accumulation window. A module that optimizes by hand accumulates by hand, too."""
    if pl_module.automatic_optimization:
        return int(trainer.accumulate_grad_batches)
    return int(getattr(pl_module, "accumulate_grad_batches", 1))


def restore_loop_counters(trainer: Trainer, pl_module: LightningModule, step: int, optimizer_steps: int) -> None:
    """Make Lightning count on from `step` completed windows.

    optimizer_steps   its own count of optimizer steps by then, which is `step` unless a module steps several optimizers
    """
    batches = step * micro_batches(trainer, pl_module)
    total = inside(trainer, BATCHES)
    total.ready = total.started = total.processed = total.completed = batches
    automatic = pl_module.automatic_optimization
    steps = inside(trainer, AUTOMATIC_STEPS if automatic else MANUAL_STEPS)
    steps.ready = steps.completed = optimizer_steps
    inside(trainer, STEPPED)
    # A module that optimizes by hand may still give the trainer its window, by which logging is paced then.
    trainer.fit_loop.epoch_loop._batches_that_stepped = batches // int(trainer.accumulate_grad_batches)


def silence_sigterm(trainer: Trainer) -> None:
    """Switch off Lightning's broadcasts about SIGTERM, which our stops replace.

    One comes before every micro-batch and waits for the device. The other comes from within the signal handler: it
    meets whatever the other ranks are doing, and all wait until they time out.
    """
    inside(trainer, SIGTERM_BROADCAST)
    inside(trainer, SIGTERM_NOTICE)
    vars(trainer.fit_loop.epoch_loop)["_broadcast_sigterm_tensor"] = lambda: None
    vars(cast(Any, trainer)._signal_connector)["_sigterm_notifier_fn"] = lambda *_: None


def give_back_after_fit(trainer: Trainer, handlers: Mapping[int, Any]) -> None:
    """Let Lightning, which puts back what it found at its start, put back these handlers."""
    inside(trainer, SIGNALS_BEFORE).update(handlers)


def dump_checkpoint(trainer: Trainer, weights_only: bool = False) -> dict[str, Any]:
    """The whole state of a training as its checkpoint would hold it, or of the weights alone, without a file.

    Collective where the strategy spreads weights over ranks.
    """
    state: dict[str, Any] = inside(trainer, DUMP)(weights_only=weights_only)
    return state


def trainer_of(pl_module: Any) -> Trainer | None:
    """The Trainer that a module is attached to, if any; None for what is no LightningModule."""
    try:
        trainer: Trainer | None = getattr(pl_module, "trainer", None)
    except RuntimeError:  # Lightning's way to say that there is none
        return None
    return trainer
