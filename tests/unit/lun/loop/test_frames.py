"""What the main thread is about is known from its frame."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset

from lun.loop.frames import awaits_a_batch, imports_a_module


class Reads(Dataset[int]):
    """One example, read by a function."""

    def __init__(self, read: Callable[[], int]) -> None:
        self.read = read

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        return self.read()


def test_a_wait_for_a_batch_is_known_from_within() -> None:
    seen = []

    def read() -> int:
        seen.append(awaits_a_batch(sys._getframe()))
        return 0

    next(iter(DataLoader(Reads(read))))
    read()
    assert seen == [True, False]


LOOKING = """
import sys
from given import look, look_like_ours
found = look(sys._getframe()), look_like_ours()
"""


def test_an_import_is_known_from_within_but_not_from_a_function_of_ours_that_it_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "looking.py").write_text(LOOKING)
    monkeypatch.syspath_prepend(tmp_path)
    ours: dict[str, Any] = {"__name__": "lun.anything", "look": imports_a_module, "sys": sys}
    exec("def look_like_ours():\n    return look(sys._getframe())", ours)
    monkeypatch.setitem(
        sys.modules, "given", SimpleNamespace(look=imports_a_module, look_like_ours=ours["look_like_ours"])
    )
    assert importlib.import_module("looking").found == (True, False)
    assert not imports_a_module(sys._getframe())
