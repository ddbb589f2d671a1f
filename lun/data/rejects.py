"""Pictures that turn out to be unreadable in the middle of a run: replaced, written down, and counted."""

import csv
import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from torch.utils.data import Dataset

from ldm.errors import Fault
from lun.data.example import Example
from lun.data.keyed import Keyed
from lun.data.order import Key

log = logging.getLogger(__name__)

OF_ONE_EXAMPLE = ("DAT04", "DAT06")
"""Faults of one picture or caption, which the others do not share."""

ATTEMPTS = 16

COLUMNS = ("path", "reason")


class Rejection(NamedTuple):
    """One example that could not be read; `fault` is how that was said where it happened."""

    path: str
    reason: str
    fault: Fault


class Replacing(Dataset[tuple[Example, list[Rejection]]]):
    """Reads an example, or another one in its place: which follows from the slot, and so is the same after a resume.

    another  `Law.another`
    """

    def __init__(self, examples: Keyed, another: Callable[[Key, int], int]) -> None:
        self.examples = examples
        self.another = another
        self.rejected: dict[int, Rejection] = {}

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, key: Key) -> tuple[Example, list[Rejection]]:
        """The example under the key's own slot, and what was rejected on the way to it."""
        met: list[Rejection] = []
        for attempt in range(ATTEMPTS):
            chosen = key if attempt == 0 else key._replace(example=self.another(key, attempt))
            if chosen.example not in self.rejected:
                try:
                    return self.examples[chosen], met
                except Fault as fault:
                    if fault.id not in OF_ONE_EXAMPLE:
                        raise
                    self.rejected[chosen.example] = self._rejection(chosen.example, fault)
            met.append(self.rejected[chosen.example])
        raise met[0].fault

    def _rejection(self, index: int, fault: Fault) -> Rejection:
        return Rejection(self.examples.offers.path(index), fault.why or fault.what, fault)


class RejectedList:
    """What was rejected so far, each path once, in `rejected.csv` of a folder; past a limit the run stops.

    n         examples of the dataset
    limit     the largest share of them that may be bad
    folder    where the list lies; asked at each rejection, None writes nothing
    """

    def __init__(self, n: int, limit: float, folder: Callable[[], Path | None]) -> None:
        self.n = n
        self.limit = limit
        self.folder = folder
        self.paths: set[str] = set()
        self.told = False

    def add(self, rejections: list[Rejection]) -> None:
        """Raises the fault of the last one, DAT04 or DAT06, once more than the limit are bad."""
        for rejection in rejections:
            if rejection.path not in self.paths:
                self.paths.add(rejection.path)
                self._write(rejection)
                self._judge(rejection)

    def _judge(self, last: Rejection) -> None:
        bad = len(self.paths)
        if bad > self.limit * self.n:
            if bad == 1:
                raise last.fault
            raise Fault(
                "DAT06",
                f"{bad} of {self.n} images ({bad / self.n:.2g} of them) cannot be read",
                where=str(self._file() or ""),
                why=f"more than data.params.max_bad_fraction={self.limit}; the last one: {last.path}: {last.reason}",
                fix="repair or remove the files, or raise data.params.max_bad_fraction",
            )
        if not self.told:
            log.warning("warning[DAT06]: %s: %s; another example takes its place", last.path, last.reason)
            log.warning("  fix:   repair or remove it; all such files are listed in %s", self._file() or "rejected.csv")
            self.told = True

    def _file(self) -> Path | None:
        folder = self.folder()
        return folder / "rejected.csv" if folder else None

    def _write(self, rejection: Rejection) -> None:
        """Append, after looking for what an earlier attempt or another rank wrote down already."""
        file = self._file()
        if file is None:
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        listed = file.exists()
        if listed and rejection.path in _paths(file):
            return
        with file.open("a", newline="", encoding="utf-8", errors="surrogateescape") as out:
            rows = csv.writer(out)
            if not listed:
                rows.writerow(COLUMNS)
            rows.writerow((rejection.path, rejection.reason))


def _paths(file: Path) -> set[str]:
    with file.open(newline="", encoding="utf-8", errors="surrogateescape") as lines:
        return {row[0] for row in csv.reader(lines) if row}
