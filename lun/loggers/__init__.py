"""Where metrics go, besides the loggers that Lightning brings."""

from importlib import import_module
from typing import Any

_MODULES = {"JsonlLogger": "jsonl", "TrackioLogger": "trackio_logger"}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a logger when it is first asked for, so that naming this package does not import torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
