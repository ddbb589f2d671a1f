"""Parsing many files with all the cores there are."""

import logging
import multiprocessing
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lun.data.loader import available_cpus
from lun.data.metadata.table import Table, concatenated

log = logging.getLogger(__name__)

WORTH_IT = 20_000
_MOST = 16


def parsed_by_many(files: list[str], root: Path, parse: Callable[[Path, list[str]], Table]) -> Table:
    """`parse(root, files)`, shared by as many processes as there are cores once the files are many."""
    workers = min(available_cpus(), _MOST)
    if len(files) < WORTH_IT or workers < 2 or multiprocessing.current_process().daemon:
        return parse(root, files)
    log.info("reading  %s descriptions with %d processes", f"{len(files):,}", workers)
    began = time.monotonic()
    size = -(-len(files) // (workers * 4))
    pieces = [files[start : start + size] for start in range(0, len(files), size)]
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        tables = pool.map(partial(parse, root), pieces, chunksize=1)
    table = concatenated(tables)
    log.info("read     %s descriptions in %.1f s", f"{len(files):,}", time.monotonic() - began)
    return table
