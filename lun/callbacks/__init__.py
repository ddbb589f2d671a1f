"""What happens beside the training step: saving, stopping, drawing samples, telling how it goes."""

from importlib import import_module
from typing import Any

_MODULES = {
    "AtStepBoundary": "boundary",
    "FollowPosition": "position",
    "AtomicIO": "atomic",
    "Checkpoint": "checkpointing",
    "FinalCheckpoint": "checkpointing",
    "DiskSpace": "space",
    "Divergence": "divergence",
    "Export": "export",
    "Stops": "stops",
    "ImageLogger": "images",
    "EmaSnapshots": "ema_snapshots",
    "SmoothedProgressBar": "progress",
    "Throughput": "throughput",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a callback when it is first asked for, so that naming this package does not import torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
