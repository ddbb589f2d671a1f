"""A module in the place of bitsandbytes, which no test needs to be installed: its AdamW8bit is torch's AdamW."""

import sys
import types
from importlib.machinery import ModuleSpec

import pytest
import torch


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    package, optim = types.ModuleType("bitsandbytes"), types.ModuleType("bitsandbytes.optim")
    package.__spec__ = ModuleSpec("bitsandbytes", None)
    kind = type("AdamW8bit", (torch.optim.AdamW,), {"__module__": "bitsandbytes.optim"})
    vars(optim)["AdamW8bit"] = kind
    vars(package)["optim"] = optim
    monkeypatch.setitem(sys.modules, "bitsandbytes", package)
    monkeypatch.setitem(sys.modules, "bitsandbytes.optim", optim)
