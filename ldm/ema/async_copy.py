"""The way of weights from an accelerator into an average on the CPU, beside training and not in its way.

After an optimizer step the weights are copied on a side stream into page-locked memory while the next forward and
backward passes, which only read them, run; the next optimizer step waits for the copy on the device, never on the host;
the arithmetic runs in a thread of its own. What can go wrong, and what prevents it:

H1 the host reads staging too early          the worker waits for the copies' mark first
H2 the optimizer overwrites what is copied   `gate` before each optimizer step
H3 a copy starts before the optimizer ended  `fork` makes the side stream wait for the training stream
H4 staging is refilled while it is read      `launch` joins the previous job
H5 memory of weights is freed while copied   the job holds them until the mark is reached
H6 a copy into pageable memory blocks        staging that is not page-locked is refused
H7 a swap or save meets an unfinished update whoever reads the average calls `join`
H8 an error of the worker is lost            `gate` and `join` raise it
H9 averaged weights are averaged             LitEma refuses updates while swapped
"""

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, Protocol

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

Tensors = dict[str, Tensor]
TOLERATED = 0.01  # share of the time between two updates that training may wait for the first


class Mark(Protocol):
    """A point in a stream of work."""

    def synchronize(self) -> None:
        """Let the host wait until the device has come here."""


class Link(Protocol):
    """An accelerator's two streams, that of training and a side one for copies, and how they wait for each other."""

    def staging(self, tensors: Mapping[str, Tensor]) -> Tensors:
        """Page-locked CPU tensors of the dtypes and shapes of `tensors`."""

    def fork(self) -> None:
        """Let the side stream wait for all work queued by training so far."""

    def copy(self, targets: Mapping[str, Tensor], sources: Mapping[str, Tensor]) -> None:
        """Copy on the side stream; returns at once."""

    def mark(self) -> Mark:
        """The end of the work queued on the side stream so far."""

    def gate(self, mark: Any) -> None:
        """Let the training stream wait for `mark`, the host not."""


class Pipeline:
    """Brings weights to `act` in a worker thread; at most one job is under way.

    stall_ms   milliseconds that the host waited in the last `launch` because the previous job was not done
    stalled    their sum; waiting in `join`, which a swap or a save does, is not counted
    """

    def __init__(self, link: Link, worker: Executor | None = None, threads: int = 4) -> None:
        self._link = link
        self._worker = worker or ThreadPoolExecutor(1, "ema", initializer=lambda: torch.set_num_threads(threads))
        self._staging: Tensors = {}
        self._mark: Any = None
        self._job: Future[None] | None = None
        self.stall_ms = 0.0
        self.stalled = 0.0
        self._launched: float | None = None
        self._logged = False

    def launch(self, tensors: Mapping[str, Tensor], act: Callable[[Tensors], object]) -> None:
        """Right after an optimizer step: copy `tensors`, then run `act` on the copies, all beside what follows.

        Raises what the previous `act` raised.
        """
        begin = time.perf_counter()
        self.join()
        self.stall_ms = (time.perf_counter() - begin) * 1e3
        self.stalled += self.stall_ms
        self._warn_of_stall(begin)
        sources = {name: tensor.detach() for name, tensor in tensors.items()}
        mark = self._copy(sources)
        self._mark = mark
        self._job = self._worker.submit(self._run, mark, sources, act)

    def gate(self) -> None:
        """Right before each optimizer step: it must not write weights that are still being copied.

        Whoever else writes weights in place calls it too. Raises what `act` raised, should it have failed meanwhile.
        """
        if self._mark is not None:
            self._link.gate(self._mark)
        if self._job is not None and self._job.done() and self._job.exception() is not None:
            self.join()

    def join(self) -> None:
        """Wait until the last launch is averaged in; raises what its `act` raised."""
        if self._job is None:
            return
        self._job.exception()  # waits; if Ctrl-C ends the wait, the job is still there to be waited for
        job, self._job, self._mark = self._job, None, None
        job.result()

    def park(self, tensors: Mapping[str, Tensor]) -> Tensors:
        """Bit-exact copies of `tensors` in staging, which hold until the next launch: a swap needs no memory."""
        self.join()
        self._copy({name: tensor.detach() for name, tensor in tensors.items()}).synchronize()
        return dict(self._staging)

    def _warn_of_stall(self, now: float) -> None:
        """Warn once if the arithmetic does not keep up with training."""
        between, self._launched = None if self._launched is None else now - self._launched, now
        if between is not None and not self._logged and self.stall_ms > TOLERATED * 1e3 * between:
            self._logged = True
            share = self.stall_ms / 1e3 / max(between, 1e-9)
            logger.warning(
                "training waited %.0f ms for the EMA (%.0f %%): update it less often", self.stall_ms, 100 * share
            )

    def _copy(self, sources: Tensors) -> Mark:
        if not _alike(self._staging, sources):
            self._staging = self._link.staging(sources)
        self._link.fork()
        self._link.copy(self._staging, sources)
        return self._link.mark()

    def _run(self, mark: Mark, sources: Tensors, act: Callable[[Tensors], object]) -> None:
        mark.synchronize()
        sources.clear()  # until now they kept the weights' memory from being given to somebody else
        act(self._staging)


class CudaLink:
    """A CUDA or ROCm device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._side = torch.cuda.Stream(device)

    def staging(self, tensors: Mapping[str, Tensor]) -> Tensors:
        with torch.inference_mode(False):
            return require_page_locked(_views_of_one_block(tensors, pin=True))

    def fork(self) -> None:
        # Outside `torch.cuda.stream`: inside, the current stream is the side stream, which would wait for itself.
        self._side.wait_stream(torch.cuda.current_stream(self._device))

    def copy(self, targets: Mapping[str, Tensor], sources: Mapping[str, Tensor]) -> None:
        with torch.cuda.stream(self._side), torch.no_grad():
            for name, target in targets.items():
                target.copy_(sources[name], non_blocking=True)

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event()
        event.record(self._side)
        return event

    def gate(self, mark: torch.cuda.Event) -> None:
        torch.cuda.current_stream(self._device).wait_event(mark)


def require_page_locked(staging: Tensors) -> Tensors:
    """`staging`; RuntimeError if a copy into it would block the host without a word (H6)."""
    if pageable := [name for name, tensor in staging.items() if tensor.numel() and not tensor.is_pinned()]:
        raise RuntimeError(f"the EMA's staging memory is not page-locked ({pageable[0]} ...): give it device=cuda")
    return staging


def pipeline_for(tensors: Mapping[str, Tensor], threads: int = 4) -> Pipeline | None:
    """A pipeline if `tensors` lie on one CUDA or ROCm device; without one weights are read where they are."""
    devices = {tensor.device for tensor in tensors.values()}
    if len(devices) != 1 or (device := devices.pop()).type != "cuda":
        return None
    return Pipeline(CudaLink(device), threads=threads)


def _alike(staging: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> bool:
    return staging.keys() == tensors.keys() and all(
        staging[name].dtype == tensor.dtype
        and staging[name].shape == tensor.shape
        and staging[name].stride() == _strides(tensor)
        for name, tensor in tensors.items()
    )


def _views_of_one_block(tensors: Mapping[str, Tensor], pin: bool) -> Tensors:
    """CPU tensors like `tensors` in one block of memory, since locking pages costs a call each time."""
    offsets, end = {}, 0
    for name, tensor in tensors.items():
        offsets[name] = end
        end += -(-tensor.numel() * tensor.element_size() // 64) * 64
    block = torch.empty(end, dtype=torch.uint8, pin_memory=pin)
    return {name: _view(block, offsets[name], tensor) for name, tensor in tensors.items()}


def _view(block: Tensor, offset: int, tensor: Tensor) -> Tensor:
    part = block[offset : offset + tensor.numel() * tensor.element_size()].view(tensor.dtype)
    return part.as_strided(tensor.shape, _strides(tensor), part.storage_offset())


def _strides(tensor: Tensor) -> tuple[int, ...]:
    """Those of the source where it has no gaps: a copy that also reorders would need memory on the device."""
    return torch.empty_like(tensor, device="meta").stride()
