"""Where a law begins that goes on from another one: all that is stored of an order, in integers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lun.data.order.law import Size

EVERY_SIZE = "any"


@dataclass(frozen=True)
class LawStart:
    """The end of one law and the beginning of the next, after more pictures, other weights or another batch.

    slot   the first place
    step   optimizer steps of the run before it
    epoch  the epoch that begins there
    read   size -> set -> how many examples were read of it; without buckets the size is None
    used   size -> how many numbers of the bucket were used, since no draw may come twice
    """

    slot: int = 0
    step: int = 0
    epoch: int = 0
    read: Mapping[Size | None, Mapping[str, int]] = field(default_factory=dict)
    used: Mapping[Size | None, int] = field(default_factory=dict)

    def state_dict(self) -> dict[str, Any]:
        read = {_written(size): dict(counts) for size, counts in self.read.items()}
        used = {_written(size): count for size, count in self.used.items()}
        return {"slot": self.slot, "step": self.step, "epoch": self.epoch, "read": read, "used": used}

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "LawStart":
        """From `state_dict`."""
        read = {_size(size): dict(counts) for size, counts in state["read"].items()}
        used = {_size(size): int(count) for size, count in state["used"].items()}
        return cls(int(state["slot"]), int(state["step"]), int(state["epoch"]), read, used)


BEGINNING = LawStart()


def _written(size: Size | None) -> str:
    return EVERY_SIZE if size is None else f"{size[0]}x{size[1]}"


def _size(written: str) -> Size | None:
    if written == EVERY_SIZE:
        return None
    width, height = map(int, written.split("x"))
    return width, height
