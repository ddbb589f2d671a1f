"""A module in the place of bitsandbytes, which no test needs to be installed: its 8-bit AdamW is torch's AdamW."""

import sys
import types
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from typing import Any

import pytest
import torch


def install(monkeypatch: pytest.MonkeyPatch, refuses: str = "") -> None:
    """With `refuses` its steps end in that error, as where a kernel is missing."""
    package, optim = types.ModuleType("bitsandbytes"), types.ModuleType("bitsandbytes.optim")
    package.__spec__ = ModuleSpec("bitsandbytes", None)
    for name in ("AdamW8bit", "PagedAdamW8bit"):
        kind = type(name, (torch.optim.AdamW,), {"__module__": "bitsandbytes.optim"})
        if refuses:
            monkeypatch.setattr(kind, "step", _raises(refuses))
        vars(optim)[name] = kind
    vars(package)["optim"] = optim
    monkeypatch.setitem(sys.modules, "bitsandbytes", package)
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", optim)


def _raises(message: str) -> Callable[..., None]:
    def step(*arguments: Any) -> None:
        raise NotImplementedError(message)

    return step
