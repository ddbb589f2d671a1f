"""Frozen weights that live in main memory and visit the device while they compute."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.torch_internals import ignore_moves


class Visitor:
    """Tensors that lie on the CPU, and on `device` from `arrive` to `leave`.

    They are frozen, so that nothing is copied back; page-locked where the device is another, so that copies run ahead
    of the computation, by a stream of their own after `send`. Raises `Fault` CFG08 where ZeRO-3 has spread them over
    the ranks.
    """

    def __init__(self, held: Iterable[Tensor], device: torch.device, side: "torch.cuda.Stream | None" = None) -> None:
        self.held = list(held)
        self.device = device
        self.side = side
        _require_whole(self.held)
        self.homes = [_at_home(tensor.data, device) for tensor in self.held]
        self._coming: list[Tensor] | None = None
        self._copied: torch.cuda.Event | None = None
        for tensor in self.held:
            tensor.visits = device  # type: ignore[attr-defined]
        self.leave()

    @property
    def is_sent(self) -> bool:
        """Whether it is on its way, or there."""
        return self._coming is not None

    def send(self) -> None:
        """Begin to copy, where that can go on beside what is computed."""
        if self.is_sent:
            return
        if self.side is None:
            self._coming = [_visiting(home, self.device) for home in self.homes]
            return
        # Memory of the computing stream, which alone frees it: the copies begin when that stream is done with it.
        self._coming = [torch.empty_like(home, device=self.device) for home in self.homes]
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            for copy, home in zip(self._coming, self.homes, strict=True):
                copy.copy_(home, non_blocking=True)
            self._copied = self.side.record_event()

    def arrive(self) -> None:
        """Be on the device for what is computed from now on."""
        self.send()
        self._wait()
        for tensor, copy in zip(self.held, self._coming or (), strict=True):
            tensor.data = copy

    def leave(self) -> None:
        """Be in main memory again, whether it arrived or was on its way."""
        self._wait()
        self._coming = None
        for tensor, home in zip(self.held, self.homes, strict=True):
            tensor.data = home

    def _wait(self) -> None:
        if self._copied is not None:
            torch.cuda.current_stream(self.device).wait_event(self._copied)
            self._copied = None


def keep_in_main_memory(module: nn.Module, device: torch.device) -> None:
    """Let the module's weights lie on the CPU, and on `device` from the start of each forward pass to its end.

    Raises the `Fault` of `Visitor`.
    """
    visitor = Visitor([*module.parameters(), *module.buffers()], device)
    module.register_forward_pre_hook(lambda *_: visitor.arrive())
    module.register_forward_hook(lambda *_: visitor.leave(), always_call=True)


def computes_on(module: nn.Module) -> torch.device:
    """The device that a module's weights are on while it computes, wherever they lie otherwise."""
    first = next(module.parameters())
    return getattr(first, "visits", first.device)


def stay_in_main_memory(module: nn.Module) -> None:
    """Let what moves a whole model to a device leave the module's weights where they are."""
    ignore_moves(module)


def _require_whole(held: Iterable[Tensor]) -> None:
    if any(hasattr(tensor, "ds_id") for tensor in held):
        raise Fault(
            "CFG08",
            "OffloadFrozen cannot be used under DeepSpeed's stage 3",
            where="lightning.callbacks: OffloadFrozen",
            why="each rank holds only its share of the frozen weights already",
            fix="leave the callback out",
        )


def _at_home(tensor: Tensor, device: torch.device) -> Tensor:
    home = tensor.to("cpu", copy=True)
    return home.pin_memory() if device.type == "cuda" else home


def _visiting(home: Tensor, device: torch.device) -> Tensor:
    return home.to(device, non_blocking=True, copy=True)
