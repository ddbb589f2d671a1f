"""A disk that fails: writes below a folder end in an error of the system from the n-th one on."""

import builtins
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch


class Disk:
    """Counts what is written below `folder`, and lets writes `first` to `last` fail with the error `number`."""

    def __init__(self, folder: Path, number: int = 0, first: int = 0, last: int = 0) -> None:
        self.folder = os.path.abspath(folder)
        self.number = number
        self.failing = range(first, last + 1)
        self.writes = 0
        self.failed: list[str] = []

    def touch(self, path: str) -> None:
        """One write to `path`."""
        self.writes += 1
        if self.writes in self.failing:
            self.failed.append(os.path.relpath(path, self.folder))
            raise OSError(self.number, os.strerror(self.number), path)

    @contextmanager
    def inserted(self) -> Iterator["Disk"]:
        real_open, real_mkdir, real_replace = builtins.open, os.mkdir, os.replace

        def opened(file: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
            if isinstance(file, int) or not set(mode) & set("wax+") or not self.holds(file):
                return real_open(file, mode, *arguments, **more)
            raw = _Raw(self, os.fspath(file), mode.replace("b", "").replace("t", ""))
            buffered = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding="utf-8", write_through=False)

        def mkdir(path: Any, *arguments: Any, **more: Any) -> None:
            if self.holds(path) and not os.path.exists(path):
                self.touch(os.fspath(path))
            real_mkdir(path, *arguments, **more)

        def replace(source: Any, target: Any, **more: Any) -> None:
            if self.holds(target):
                self.touch(os.fspath(target))
            real_replace(source, target, **more)

        with (
            patch.object(builtins, "open", opened),
            patch.object(io, "open", opened),
            patch.object(os, "mkdir", mkdir),
            patch.object(os, "replace", replace),
        ):
            yield self

    def holds(self, path: Any) -> bool:
        return os.path.abspath(os.fspath(path)).startswith(self.folder + os.sep)


class _Raw(io.FileIO):
    def __init__(self, disk: Disk, path: str, mode: str) -> None:
        disk.touch(path)
        super().__init__(path, mode)
        self.disk = disk

    def write(self, content: Any) -> int:
        self.disk.touch(str(self.name))
        return super().write(content)
