"""Batches from worker processes that leave stopping to the main process, die with it, and report faults whole."""

import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from ldm.errors import Fault
from lun.data.example import Batch, Example, collate
from lun.data.keyed import Keyed
from lun.data.order import Key
from lun.data.rejects import Rejection, Replacing

log = logging.getLogger(__name__)

Delivered = tuple[list[Example], list[Rejection]]
Packed = tuple[Batch, list[Rejection]]

SETTINGS = ("num_workers", "pin_memory", "timeout", "prefetch_factor", "persistent_workers", "multiprocessing_context")
"""What `dataloader_params` may say; order, batches and collation follow from the position."""

IGNORED = ("drop_last", "shuffle")

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of linux/prctl.h


def available_cpus() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def loader_settings(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`dataloader_params` of a config without those that have no effect here, which are told.

    Raises `Fault` CFG03 for one that the loader does not take.
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
            if self.replacing is None:
                return [self.examples[key] for key in keys], []
            found = [self.replacing[key] for key in keys]
        except Fault as fault:
            return fault
        return [example for example, _ in found], [rejection for _, met in found for rejection in met]


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
    rejected  is told of every one that was replaced
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
        super().__init__(_Delivery(examples, another), batch_sampler=batches, collate_fn=_pack, **settings)
        context = self.multiprocessing_context or torch.multiprocessing.get_context()
        parent = 0 if context.get_start_method() == "forkserver" else os.getpid()
        self.worker_init_fn = partial(guard_worker, parent=parent)
        self.rejected = rejected

    def _unpack(self, packed: Packed | Fault) -> Batch:
        if isinstance(packed, Fault):
            raise packed
        batch, rejections = packed
        if rejections and self.rejected is not None:
            self.rejected(rejections)
        return batch

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        return map(self._unpack, super().__iter__())


def guard_worker(worker: int, parent: int) -> None:
    """Prepare a worker process: one thread, deaf to signals meant for the main process, ended together with it.

    Ctrl-C and a scheduler's signals reach the whole process group; the main process still needs its batches to finish
    the accumulation window. `parent` is the process id that should be above this one; 0: not known, not checked.
    """
    torch.set_num_threads(1)
    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if parent and os.getppid() != parent:
        os._exit(1)  # the parent died before the line above; nobody would end this process
