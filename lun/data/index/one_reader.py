"""One process of a machine at a time reads what an index lacks; the others wait for it and take it from there."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import TextIO

from ldm.operating_system import lock_open_file

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 1800.0
_POLL_SECONDS = 0.05


@contextmanager
def one_reader(index: Path) -> Iterator[None]:
    """Hold the right to read what the file `index` is to keep; whoever gets it looks into the index once more.

    A process that ends in whatever way gives the right to the next one. Everybody reads for itself after half an hour
    of waiting, and where there are no locks: on some network disks, and where the index cannot be written.
    """
    try:
        index.parent.mkdir(parents=True, exist_ok=True)
        lock = index.with_suffix(".lock").open("w")
    except OSError:
        yield
        return
    with lock:
        _wait_for(lock, index)
        yield


def _wait_for(lock: TextIO, index: Path) -> None:
    begun, logged = monotonic(), False
    while not _taken(lock):
        if monotonic() - begun > PATIENCE_SECONDS:
            log.warning("another process reads %s for very long; reading it here as well", index.parent.name)
            return
        if not logged:
            log.info("waiting  for another process, which reads %s", index.parent.name)
            logged = True
        sleep(_POLL_SECONDS)


def _taken(lock: TextIO) -> bool:
    """Whether nobody else has it any more, or there are no locks."""
    try:
        lock_open_file(lock, wait=False)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
