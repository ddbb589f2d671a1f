"""Metrics as one JSON object a line, for scripts and for people with `grep`."""

import json
import logging
import math
import time
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

log = logging.getLogger(__name__)

LONGEST_LINE = 1 << 20


class JsonlLogger(Logger):
    """Appends `{"step": 25, "time": 1763703182.1, "train/loss": 0.41, ...}` to `<save_dir>/<name>.jsonl` at each call.

    `time` is in seconds since 1970. Numbers that JSON does not have become the strings "nan", "inf" and "-inf". A
    resumed run goes on in the same file; only rank 0 writes; each line has left the process when the call returns.
    Where it cannot be written, which is logged once, lines wait for a call at which it can.

    save_dir  folder of the file, by default the run directory
    name  name of the file, without .jsonl
    """

    def __init__(self, save_dir: str = "", name: str = "metrics") -> None:
        super().__init__()
        self._folder = Path(save_dir)
        self._name = name
        self._waiting: list[str] = []
        self._sound = False

    @property
    def path(self) -> Path:
        return self._folder / f"{self._name}.jsonl"

    @property
    def name(self) -> str:
        return self._name

    @property
    def version(self) -> str:
        return ""

    @property
    def save_dir(self) -> str:
        return str(self._folder)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        values = {name: plain(value) for name, value in metrics.items()}
        line = json.dumps({"step": step, "time": round(time.time(), 3), **values}, allow_nan=False)
        self._waiting.append(line + "\n")
        try:
            self._write()
        except OSError as error:
            self._sound = False
            log.warning("%s cannot be written for now: %s", self.path, error.strerror)

    def _write(self) -> None:
        if not self._sound:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            mend(self.path)
            self._sound = True
        with self.path.open("a", encoding="utf-8") as stream:
            stream.writelines(self._waiting)
        self._waiting.clear()

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Nothing: the run directory holds the whole config."""


def plain(value: Any) -> float | int | str:
    """A metric as a value that JSON has."""
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, float) and not math.isfinite(number):
        return str(number)
    return number if isinstance(number, int | float) else str(number)


def mend(path: Path) -> None:
    """Cut off a last line that a crash left unfinished."""
    if not path.exists():
        return
    with path.open("rb+") as stream:
        end = stream.seek(0, 2)
        start = max(0, end - LONGEST_LINE)
        stream.seek(start)
        stream.truncate(start + stream.read().rfind(b"\n") + 1)
