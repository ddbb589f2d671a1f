"""Pictures that turn out to be unreadable in the middle of a run: replaced, written down, and counted."""

import csv
import io
import logging
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from torch.utils.data import Dataset

from ldm.errors import Fault
from lun.data.example import Example
from lun.data.keyed import Keyed
from lun.data.order.law import Key

log = logging.getLogger(__name__)

OF_ONE_EXAMPLE = ("DAT04", "DAT06")
"""Faults of one picture or caption, which the others do not share."""

ATTEMPTS = 16

COLUMNS = ("path", "reason", "set", "at")


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
        return Rejection(self.examples.access.path(index), fault.why or fault.what, fault)


class RejectedList:
    """What was rejected so far, each path once, in `rejected.csv` of a folder; past a limit the run stops.

    All ranks write to the same list, and later attempts go on with it, so that the limit is that of the whole run; what
    was repaired or removed since it was listed does not count.

    n         examples of the dataset
    limit     the largest share of them that may be bad
    folder    where the list lies; asked at each rejection, None writes nothing
    split     which dataset of the run this is
    """

    def __init__(self, n: int, limit: float, folder: Callable[[], Path | None], split: str = "train") -> None:
        self.n = n
        self.limit = limit
        self.folder = folder
        self.split = split
        self.paths: set[str] = set()
        self.listed: set[str] = set()
        self.bad: set[str] = set()
        """here, on other ranks and in earlier attempts"""
        self.logged = False
        self._read_to = 0

    def add(self, rejections: list[Rejection]) -> None:
        """Raises the fault of the last one, DAT04 or DAT06, once more than the limit are bad."""
        for rejection in rejections:
            if rejection.path not in self.paths:
                self.paths.add(rejection.path)
                self.bad.add(rejection.path)
                self._write_down(rejection)
                self._judge(rejection)

    def _judge(self, last: Rejection) -> None:
        bad = len(self.bad)
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
        if not self.logged:
            log.warning("warning[DAT06]: %s: %s; another example takes its place", last.path, last.reason)
            log.warning("  fix:   repair or remove it; all such files are listed in %s", self._file() or "rejected.csv")
            self.logged = True

    def _file(self) -> Path | None:
        folder = self.folder()
        return folder / "rejected.csv" if folder else None

    def _write_down(self, rejection: Rejection) -> None:
        """Append it, unless an earlier attempt or another rank did."""
        file = self._file()
        if file is None:
            return
        try:
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                _append(file, COLUMNS)
            self._catch_up(file)
            if rejection.path not in self.listed:
                now = datetime.now(UTC).isoformat(timespec="seconds")
                _append(file, (rejection.path, rejection.reason, self.split, now))
        except OSError as error:
            log.warning("%s cannot be written (%s), so %s is not listed", file, error.strerror, rejection.path)

    def _catch_up(self, file: Path) -> None:
        """Read what was written down since the last look."""
        with file.open("rb") as lines:
            lines.seek(self._read_to)
            new = lines.read()
        new = new[: new.rfind(b"\n") + 1]
        self._read_to += len(new)
        for row in csv.reader(io.StringIO(new.decode("utf-8", "surrogateescape"), newline="")):
            if len(row) == len(COLUMNS) and tuple(row) != COLUMNS:
                path, split, at = row[0].removeprefix("./"), row[2], row[3]
                self.listed.add(path)
                if split == self.split and _is_as_it_was(path, datetime.fromisoformat(at)):
                    self.bad.add(path)


def no_formula(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula: names of pictures may begin with anything."""
    return f"./{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _append(file: Path, row: tuple[str, ...]) -> None:
    """In a single write, so that lines of several processes do not mix."""
    text = io.StringIO(newline="")
    csv.writer(text).writerow(map(no_formula, row))
    with file.open("ab", buffering=0) as out:
        out.write(text.getvalue().encode("utf-8", "surrogateescape"))


def _is_as_it_was(path: str, at: datetime) -> bool:
    """Whether the file, or the shard that holds it, is still there and was not written to since.

    What a URL names is: a run goes on only with the shards that it began with.
    """
    if "://" in path:
        return True
    shard, _, row = path.rpartition("#")
    try:
        return (
            os.stat(shard if row.isdecimal() and shard.endswith(".tar") else path).st_mtime <= at.timestamp() + 1
        )  # times are listed in whole seconds
    except OSError:
        return False
