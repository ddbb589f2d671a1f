"""A packed set behind a URL (HTTP, S3, GCS, Azure): pieces of its files, several at a time.

The network never decides what is trained on: what does not answer is asked again, and then the run stops and can be
resumed. The client's threads do not survive a fork, so a process that may still fork loader workers has its few files
fetched by another one.
"""

import json
import multiprocessing
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from time import monotonic, sleep
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from ldm.errors import Fault
from ldm.missing_packages import install_line
from ldm.plain import parse_json
from lun.data.packs.set_file import COPY, TarShard
from lun.data.packs.storage import Piece, other_length

SCHEMES = ("http", "https", "s3", "gs", "az")
AT_ONCE = 16
"""Files that are asked for at the same time."""
RETRIES, RETRY_SECONDS, TIMEOUT_SECONDS = 8, 120, 30
"""How often, and for how long in all, a server that does not answer is asked again; and what counts as no answer."""

LEAST_PART, MOST_PARTS = 8 << 20, 9000
"""Bytes of one part of a file that is sent, and how many parts S3 takes (10,000)."""
PORTION = 32 << 20

T = TypeVar("T")
_used_in: int | None = None
"""The process in which the client was used; a fork of it cannot."""


class Remote:
    """The files below `url`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.where = without_password(self.url)
        self._store: Any = None
        self._threads: ThreadPoolExecutor | None = None
        self._known: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_store": None, "_threads": None}  # another process makes its own

    def path(self, name: str) -> str:
        return f"{self.where}/{name}"

    def whole(self, names: Sequence[str]) -> list[bytes]:
        if multiprocessing.parent_process() is None and _used_in != os.getpid():
            return fetched_elsewhere(self.url, names)
        return self.fetch(names)

    def fetch(self, names: Sequence[str]) -> list[bytes]:
        """The contents of files, in this process."""
        return self._all([partial(self._get, name) for name in names])

    def pieces(self, shard: TarShard, wanted: Sequence[Piece]) -> list[bytes]:
        if shard.name not in self._known:
            found = self._asked(shard.name, lambda store: store.head(shard.name)["size"])
            if found != shard.bytes:
                raise other_length(self.path(shard.name), found, shard.bytes)
            self._known.add(shard.name)
        starts, lengths = zip(*wanted, strict=True)
        found = self._asked(shard.name, lambda store: store.get_ranges(shard.name, starts=starts, lengths=lengths))
        return [bytes(one) for one in found]

    def several(self, wanted: Sequence[tuple[TarShard, Sequence[Piece]]]) -> list[list[bytes]]:
        return self._all([partial(self.pieces, shard, pieces) for shard, pieces in wanted])

    def forget(self, shard: TarShard) -> None:
        """There is none."""

    # What a pack does with them, in a process that never forks

    def names(self) -> set[str]:
        """The files that are there, without those of folders below; none where nothing is."""
        found = self._asked("", lambda store: store.list_with_delimiter())
        return {one["path"] for one in found["objects"]}

    def put(self, name: str, file: BinaryIO) -> None:
        """Send a file, in parts where it is long; it is there when all of it is. Raises `Fault` DAT13, DAT15."""
        part = max(LEAST_PART, -(-file.seek(0, os.SEEK_END) // MOST_PARTS))

        def sent(store: Any) -> None:
            file.seek(0)
            store.put(name, file, chunk_size=part)

        self._asked(name, sent)

    def delete(self, name: str) -> None:
        """Take a file away, if it is there."""

        def gone(store: Any) -> None:
            with suppress(FileNotFoundError):
                store.delete(name)

        self._asked(name, gone)

    def portions(self, name: str) -> Iterator[bytes]:
        """The content of a long file, one after the other. Raises `Fault` DAT13, DAT15."""
        length, at = int(self._asked(name, lambda store: store.head(name)["size"])), 0
        while at < length:
            end = min(length, at + PORTION)
            yield bytes(self._asked(name, partial(_range, name=name, start=at, end=end)))
            at = end

    def _get(self, name: str) -> bytes:
        return bytes(self._asked(name, lambda store: store.get(name).bytes()))

    def _all(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        if len(calls) < 2:
            return [call() for call in calls]
        self._opened()  # one store for all threads
        self._threads = self._threads or ThreadPoolExecutor(AT_ONCE)
        return list(self._threads.map(lambda call: call(), calls))

    def _opened(self) -> Any:
        global _used_in
        if self._store is None or _used_in != os.getpid():
            if _used_in not in (None, os.getpid()):
                raise _forked(self.where)
            self._store, _used_in = _store(self.url, self.where), os.getpid()
        return self._store

    def _asked(self, name: str, what: Callable[[Any], T]) -> T:
        """What the client gives. What breaks off is asked for again here: the client does so only at times."""
        from obstore.exceptions import BaseError, GenericError

        store, begun = self._opened(), monotonic()
        for attempt in range(RETRIES + 1):
            try:
                return what(store)
            except (BaseError, FileNotFoundError) as error:
                waited = monotonic() - begun > RETRY_SECONDS
                passes = isinstance(error, GenericError) and not (_lacks_credentials(error) or _lacks_bucket(error))
                if not passes or waited or attempt == RETRIES:
                    raise self._cannot(name, error) from error
                sleep(0.1 * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _cannot(self, name: str, error: Exception) -> Fault:
        said = _first_line(error).replace(self.url, self.where)
        if _lacks_credentials(error):
            what = f"this machine has no credentials for {self.where}"
            return Fault("DAT13", what, where=self.path(name), why=said, fix=_CREDENTIALS)
        if _lacks_bucket(error):
            what = f"there is no bucket {urlsplit(self.where).netloc}"
            return Fault("DAT13", what, where=self.where, why=said, fix="the URL of a bucket that is there")
        if isinstance(error, FileNotFoundError):
            return Fault("DAT13", f"{self.path(name)} is not there", where=self.where, why=said, fix=COPY)
        if type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError"):
            what = f"{self.where} may not be used with the credentials of this machine"
            return Fault("DAT13", what, where=self.path(name), why=said, fix=_CREDENTIALS)
        what = f"{self.where} does not answer"
        return Fault("DAT15", what, where=self.path(name), why=said, fix="-r RUN, once it answers again")


def _range(store: Any, name: str, start: int, end: int) -> bytes:
    return bytes(store.get_range(name, start=start, end=end))


_CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS or AZURE_STORAGE_...; those of a"
    ' profile:  eval "$(aws configure export-credentials --format env)"; of a public bucket:  AWS_SKIP_SIGNATURE=true'
)
_OF_THE_MACHINE = re.compile(r"//169\.254\.\d+\.\d+|//metadata\.google|/latest/(api/token|meta-data)")
"""Where a cloud's own machine asks for credentials, which is what a client does that was given none."""


def _lacks_credentials(error: Exception) -> bool:
    return _OF_THE_MACHINE.search(str(error)) is not None


def _lacks_bucket(error: Exception) -> bool:
    return "<Code>NoSuchBucket</Code>" in str(error)


def _store(url: str, where: str) -> Any:
    """A client that retries by itself. Raises `Fault` DEP01 without its package, DAT13 for an odd URL."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ModuleNotFoundError as error:
        what = f"reading {where} needs the package obstore"
        raise Fault("DEP01", what, where=where, fix=install_line("obstore")) from error
    options: Any = {"timeout": f"{TIMEOUT_SECONDS}s", "allow_http": True}
    retries: Any = {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}
    try:
        return from_url(url, client_options=options, retry_config=retries)
    except (BaseError, ValueError) as error:
        raise Fault("DAT13", f"{where} cannot be opened", where=where, why=_first_line(error)) from error


def _forked(where: str) -> Fault:
    return Fault(
        "CFG08",
        f"{where} was read before the processes of a loader were begun, which cannot read it then",
        where="dataloader_params",
        why="the threads of its client do not survive a fork",
        fix="dataloader_params: {multiprocessing_context: forkserver}, or the same num_workers for all data sets",
    )


def fetched_elsewhere(url: str, names: Sequence[str]) -> list[bytes]:
    """The contents of files, fetched by a process that ends with it. Raises its `Fault`."""
    command = [sys.executable, "-m", "lun.data.packs.fetch_files"]
    asked = json.dumps({"url": url, "names": list(names)}).encode()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run(command, input=asked, capture_output=True, env=environment)
    if answer.returncode or not answer.stdout:
        why = answer.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise Fault("DAT15", f"{without_password(url)} cannot be read", why=why or f"exit code {answer.returncode}")
    head, _, body = answer.stdout.partition(b"\n")
    facts = parse_json(head)
    if "fault" in facts:
        id, what, *rest = facts["fault"]
        raise Fault(id, what, **dict(zip(("where", "why", "fix"), rest, strict=True)))
    found, at = [], 0
    for length in facts["lengths"]:
        found.append(body[at : at + length])
        at += length
    return found


def without_password(url: str) -> str:
    """The same URL for a person to read."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
