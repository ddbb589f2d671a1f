"""The loop: each picture that has not got it is read, annotated in batches, and its rows are put down."""

from __future__ import annotations

import hashlib
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from PIL import Image
from tqdm import tqdm

from ldm.errors import Fault
from ldm.shell import quoted
from lun.annotate.annotated_folder import AnnotatedFolder
from lun.annotate.annotator import Annotator
from lun.annotate.outputs import Output, checked_rows
from lun.console.out_of_memory import is_out_of_memory
from lun.data.images.decode import decode
from lun.data.index.dir_handle import open_file

THREADS = 4
SEEN = (1024, 1024)
"""Width and height that a picture still covers where a JPEG is decoded smaller: more than annotators look at."""


@dataclass
class Annotated:
    """How many pictures were annotated, had it before, and could not be read: (name, why)."""

    new: int = 0
    before: int = 0
    unreadable: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _Read:
    index: int
    key: str
    picture: Image.Image | Fault


class Annotating:
    """`annotator` over `folder` into `output`, `batch` pictures at a time."""

    def __init__(self, folder: AnnotatedFolder, annotator: Annotator, output: Output, batch: int) -> None:
        self.folder, self.annotator, self.output, self.batch = folder, annotator, output, batch
        self.done = Annotated()

    def run(self) -> Annotated:
        """Annotate all that is left. Raises `Fault` DEV02 where memory does not suffice, DAT08 for senseless rows."""
        with tqdm(total=len(self.folder), desc="annotate", leave=False, file=sys.stdout, disable=None) as bar:
            left = self._left()
            while read := list(islice(left, self.batch)):
                self._annotate(read)
                bar.update(self.done.new + self.done.before + len(self.done.unreadable) - bar.n)
        return self.done

    def _left(self) -> Iterator[_Read]:
        """Pictures to annotate, a few of them read ahead."""
        with ThreadPoolExecutor(THREADS) as threads:
            waiting: deque[Future[_Read | None]] = deque()
            indices = iter(range(len(self.folder)))
            try:
                while True:
                    free = 2 * self.batch + THREADS - len(waiting)
                    waiting.extend(threads.submit(self._read, index) for index in islice(indices, free))
                    if not waiting:
                        return
                    if (read := waiting.popleft().result()) is None:
                        self.done.before += 1
                    elif isinstance(read.picture, Fault):
                        self.done.unreadable.append((self.folder.name(read.index), read.picture.why))
                    else:
                        yield read
            finally:
                threads.shutdown(cancel_futures=True)

    def _read(self, index: int) -> _Read | None:
        """A picture with the key of its content, as far as that is asked for; None for one that is annotated."""
        path = self.folder.path(index)
        key = _key_of(path) if self.output.keyed else ""
        if self.output.has(index, key):
            return None
        try:
            return _Read(index, key, decode(path, SEEN))
        except Fault as fault:
            return _Read(index, key, fault)

    def _annotate(self, read: Sequence[_Read]) -> None:
        pictures = [one.picture for one in read if isinstance(one.picture, Image.Image)]
        try:
            rows = self.annotator(pictures)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise self._out_of_memory(error) from error
        columns = checked_rows(rows, len(read), self.annotator.columns, type(self.annotator).__name__)
        self.output.add([(one.index, one.key, row) for one, row in zip(read, columns, strict=True)])
        self.done.new += len(read)

    def _out_of_memory(self, error: BaseException) -> Fault:
        smaller = f"--batch {quoted(self.batch // 2)}" if self.batch > 1 else "--dtype bf16, or --device cpu"
        what = f"out of memory with {self.batch} pictures at a time"
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        return Fault("DEV02", what, where="--batch", why=why, fix=f"{smaller}   (what was annotated is kept)")


def _key_of(path: Path) -> str:
    """sha256 of a file; '' for one that cannot be read, which is reported when it is decoded."""
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
