"""What Lightning does not promise and models that optimize by hand need. Tried with Lightning 2.6.6.

What the program's loop needs of it stands in `lun.loop.lightning_internals`.
"""

from typing import Any


def leave_uncounted(optimizer: Any) -> Any:
    """A LightningOptimizer whose steps do not count as the run's; again in every step, since Lightning undoes it."""
    optimizer._on_before_step = optimizer._on_after_step = _nothing
    return optimizer


def forget_logged(trainer: Any) -> None:
    """Where a model steps by hand Lightning logs a window again with each micro-batch of the next one."""
    trainer._results.reset()


def logs_anything(trainer: Any) -> bool:
    """Whether a model or callback has logged by Lightning's `log` in this training."""
    return bool(trainer._results)


def _nothing() -> None:
    """In the place of Lightning's counting."""
