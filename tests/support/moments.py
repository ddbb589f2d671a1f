"""Moments of a run at which a test wants something to happen, told to a process before it starts the program."""

import os
import signal
from collections.abc import Callable
from typing import Any

MOMENTS = {
    "reading the settings": ("lun.run.settings.check", 1),
    "writing down the run": ("lun.run_dir.directory.RunDirectory.save_configs", 1),
    "a sanity check": ("ldm.models.diffusion.ddpm.LatentDiffusion.validation_step", 1),
    "an optimizer step": ("ldm.models.diffusion.ddpm.LatentDiffusion.optimizer_step", 4),
    "an update of the EMA": ("ldm.modules.ema.LitEma.update", 4),
    "validation": ("ldm.models.diffusion.ddpm.LatentDiffusion.validation_step", 5),
    "sampling": ("ldm.models.diffusion.ddpm.LatentDiffusion.sample_prompts", 3),
    "saving": ("lun.checkpoints.atomic.torch.save", 2),
}
"""Name: the function that is entered then, and at which of its calls."""


def signal_at(moment: str, number: int, group: bool, times: int = 1) -> None:
    """Send this process, or all its group, a signal when the moment comes."""

    def send() -> None:
        for _ in range(times):
            (os.killpg if group else os.kill)(os.getpid(), number)
            signal.sigpending()  # a call into Python between two of them, so that each is seen

    before_call(*MOMENTS[moment], send)


def before_call(path: str, count: int, act: Callable[[], None]) -> None:
    """Let `act` happen as the function at `path` is entered for the `count`-th time."""
    owner_path, _, name = path.rpartition(".")
    owner = _found(owner_path)
    original = getattr(owner, name)
    calls = 0

    def replaced(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            act()
        return original(*arguments, **more)

    setattr(owner, name, replaced)


def _found(path: str) -> Any:
    from pkgutil import resolve_name

    return resolve_name(path)
