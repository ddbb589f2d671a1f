"""Batches from worker processes that leave stopping to the main process, die with it, and report faults whole."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.queues import Queue
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from ldm.errors import Fault
from ldm.operating_system import STOPPING_SIGNALS, end_with_parent
from ldm.torch_internals import end_workers
from lun.data.example import Batch, Example, collate
from lun.data.keyed import Keyed
from lun.data.order.law import Key
from lun.data.rejects import Rejection, Replacing

log = logging.getLogger(__name__)

Delivered = tuple[list[Example], list[Rejection]]
Packed = tuple[Batch, list[Rejection]]

SETTINGS = ("num_workers", "pin_memory", "timeout", "prefetch_factor", "persistent_workers", "multiprocessing_context")
"""What `dataloader_params` may say; order, batches and collation follow from the position."""

IGNORED = ("drop_last", "shuffle")

LOST_BATCH = 3
END_SECONDS = 2.0
"""How long a worker may go on with what it reads when nobody asks for it any more."""


def loader_settings(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`dataloader_params` of a config without those that have no effect here, which are logged.

    Raises `Fault` CFG03 for one that the loader does not take, CFG08 for a value that it does not.
    """
    ignored = [name for name in IGNORED if name in given]
    if ignored:
        log.info(
            "%s: without effect: %s; no example is dropped, and the position decides the order",
            where,
            ", ".join(ignored),
        )
    for name in given:
        if name not in SETTINGS + IGNORED:
            raise Fault("CFG03", f"unknown setting {where}.{name}", where=where, why=f"it takes: {', '.join(SETTINGS)}")
    if (fetched := given.get("prefetch_factor")) is not None and fetched < 1:  # torch notices when it starts to read
        raise Fault("CFG08", f"{where}.prefetch_factor cannot be {fetched}", where=where, why="it takes 1 or more")
    return {name: value for name, value in given.items() if name in SETTINGS}


class _Delivery(Dataset[Any]):
    """Reads a whole batch, or the fault that came up: torch would keep only the text of an exception of a worker."""

    def __init__(self, examples: Keyed, another: Callable[[Key, int], int] | None) -> None:
        self.examples = examples
        self.replacing = Replacing(examples, another) if another else None

    def __len__(self) -> int:
        return len(self.examples)

    def __getitems__(self, keys: list[Key]) -> Delivered | Fault:
        try:
            self.examples.access.fetch([Key(*key).example for key in keys])
            if self.replacing is None:
                return [self.examples[key] for key in keys], []
            examples = [self.replacing[key] for key in keys]
        except Fault as fault:
            return fault
        return [example for example, _ in examples], [rejection for _, met in examples for rejection in met]


def _pack(delivered: Any) -> Packed | Fault:
    """What `_Delivery` read, as one batch; torch declares it a list."""
    if isinstance(delivered, Fault):
        return delivered
    examples, rejections = delivered
    try:
        return collate(examples), rejections
    except Fault as fault:
        return fault


class Loader(DataLoader[Batch]):
    """A DataLoader over keys that raises a worker's `Fault` as it was raised there.

    another   which example takes the place of one that cannot be read; without it such an example is a fault
    rejected  called with every one that was replaced
    """

    def __init__(
        self,
        examples: Keyed,
        batches: Sampler[list[Key]],
        another: Callable[[Key, int], int] | None = None,
        rejected: Callable[[list[Rejection]], None] | None = None,
        **settings: Any,
    ) -> None:
        settings.setdefault("pin_memory", torch.cuda.is_available())
        try:
            super().__init__(_Delivery(examples, another), batch_sampler=batches, collate_fn=_pack, **settings)
        except ValueError as error:  # what torch refuses of `dataloader_params`, such as a negative timeout
            raise Fault("CFG08", f"the loader refuses its settings: {error}", where="dataloader_params") from error
        context = self.multiprocessing_context or torch.multiprocessing.get_context()
        parent = 0 if context.get_start_method() == "forkserver" else os.getpid()
        self.worker_init_fn = partial(guard_worker, parent=parent)
        self.examples, self.another, self.rejected = examples, another, rejected

    def _unpack(self, packed: Packed | Fault) -> Batch:
        if isinstance(packed, Fault):
            raise packed
        batch, rejections = packed
        if rejections and self.rejected is not None:
            self.rejected(rejections)
        return batch

    def once(self, batches: Sequence[list[Key]]) -> Iterator[Batch]:
        """The batches of these keys, read as others are: by a worker where there are some, and in this process else."""
        settings: dict[str, Any] = {"num_workers": min(1, self.num_workers), "pin_memory": self.pin_memory}
        if self.num_workers:
            settings["multiprocessing_context"] = self.multiprocessing_context
        few: Any = batches
        return iter(Loader(self.examples, few, self.another, self.rejected, **settings))

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        return map(self._unpack, with_lost_workers_named(super().__iter__(), self.persistent_workers))


def with_lost_workers_named(batches: Iterator[Any], persistent: bool) -> Iterator[Any]:
    """The batches. Raises `Fault` DAT12 where a worker is gone, which torch reports as an error of the program.

    persistent   workers stay for the next who iterates, and end with their loader
    """
    try:
        yield from batches
    except (EOFError, ConnectionError) as error:  # what it had in hand when it was ended
        raise _gone("it ended while it handed over a batch") from error
    except RuntimeError as error:
        if fault := lost_worker(error):
            raise fault from error
        raise
    finally:
        if not persistent:
            end_workers(batches, END_SECONDS)


def lost_worker(error: BaseException) -> Fault | None:
    """DAT12 for torch's error about a worker that was ended from outside or got no shared memory; None for others.

    torch raises it as a signal handler as well, anywhere.
    """
    if not isinstance(error, RuntimeError) or "DataLoader worker" not in str(error):
        return None
    return _gone(str(error).splitlines()[0])


def _gone(how: str) -> Fault:
    return Fault(
        "DAT12",
        f"a process that reads images is gone: {how}",
        where="data.params.num_workers",
        why="it had no memory left, or no shared memory (/dev/shm, small in containers) for its batches; "
        "or somebody ended it",
        fix="data.params.num_workers=1, a smaller data.params.batch_size, or in a container: --shm-size=8g\n"
        "without processes of their own: data.params.num_workers=0",
    )


def end_at_full_memory() -> None:
    """Let this worker end where it cannot hand a batch over; else the main process would wait for it for ever.

    torch's queue puts batches into shared memory in a thread, where an error would be printed and forgotten.
    """

    def end(error: BaseException, batch: Any) -> None:
        print(f"a batch could not be handed over: {error}", file=sys.stderr, flush=True)
        os._exit(LOST_BATCH)

    Queue._on_queue_feeder_error = staticmethod(end)  # type: ignore[attr-defined]


def guard_worker(worker: int, parent: int) -> None:
    """Prepare a worker process: one thread, deaf to signals meant for the main process, ended together with it.

    Ctrl-C and a scheduler's signals reach the whole process group; the main process still needs its batches to finish
    the accumulation window. `parent` is the process id that should be above this one; 0: not known, not checked.
    """
    torch.set_num_threads(1)
    end_at_full_memory()
    for number in STOPPING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    end_with_parent()
    if parent and os.getppid() != parent:
        os._exit(1)  # the parent died before the line above; nobody would end this process
