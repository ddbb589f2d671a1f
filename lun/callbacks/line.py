"""What a progress line says, and how it is made to fit a terminal of any width."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

WIDEST_BAR, NARROWEST_BAR = 40, 6
GAP = "  "
DAY = 86400


class Phrase(NamedTuple):
    """A part of the line; what does not fit is left out from the highest rank down, past the bar from `EXTRA` on."""

    rank: int
    text: str


EXTRA = 6


@dataclass(frozen=True)
class Standing:
    """How a run stands, with what is known so far.

    seconds  of one step;  images  of one step;  wait  share of the time, 0 to 1;  memory  such as `18.3/24.0 GiB`
    """

    step: int
    total: int | None = None
    loss: float | None = None
    seconds: float | None = None
    images: float = 0.0
    wait: float | None = None
    memory: str | None = None

    @property
    def share(self) -> float | None:
        """How much of the run is over, 0 to 1."""
        return min(1.0, self.step / self.total) if self.total else None

    def phrases(self, doing: str = "") -> Iterable[Phrase]:
        """In the order in which they are shown."""
        if self.share is not None:
            yield Phrase(5, f"{100 * self.share:.0f}%")
        yield Phrase(4, f"{self.step}/{self.total}" if self.total else str(self.step))
        if doing:
            yield Phrase(0, doing)
        if self.loss is not None:
            yield Phrase(1, f"loss {self.loss:.3f}")
        if self.seconds:
            yield Phrase(2, f"{1 / self.seconds:.1f} it/s" if self.seconds < 1 else f"{self.seconds:.1f} s/it")
            speed = self.images / self.seconds
            yield Phrase(EXTRA + 1, f"{speed:.0f} img/s" if speed >= 10 else f"{speed:.1f} img/s")
        if self.wait is not None:
            yield Phrase(EXTRA + 2, f"wait {100 * self.wait:.0f}%")
        if self.memory:
            yield Phrase(EXTRA, f"mem {self.memory}")
        if self.seconds and self.total:
            yield Phrase(3, f"eta {duration(max(0, self.total - self.step) * self.seconds)}")


def progress_line(standing: Standing) -> str:
    """`218/900  loss 0.183  7.6 it/s  243 img/s  wait 1%  eta 1:29`: all that is known, for a log."""
    return GAP.join(phrase.text for phrase in standing.phrases() if not phrase.text.endswith("%") or phrase.rank > 5)


def bar_line(standing: Standing, columns: int, doing: str = "") -> str:
    """`[##........]  24%  218/900  sampling 12 s  loss 0.183  7.6 it/s  eta 1:29`, at most `columns` characters.

    doing   what goes on besides steps, which is never left out; the bar takes what the words leave
    """
    phrases = list(standing.phrases(doing))
    chosen: set[Phrase] = set()
    used = 0
    for phrase in sorted(phrases):
        room = columns - (len(GAP) + NARROWEST_BAR + 2 if phrase.rank >= EXTRA else 0)
        wide = len(phrase.text) + (len(GAP) if chosen else 0)
        if used + wide <= room:
            chosen.add(phrase)
            used += wide
    words = GAP.join(phrase.text for phrase in phrases if phrase in chosen)[:columns]
    length = min(WIDEST_BAR, columns - len(words) - len(GAP) - 2)
    if standing.share is None or length < NARROWEST_BAR:
        return words
    return f"[{'#' * int(length * standing.share):.<{length}}]{GAP}{words}"


def summary(step: int, loss: float | None, val: float | None) -> str:
    """`step   225  loss 0.171  val 0.204`, the line that stays after a validation."""
    parts = [f"step {step:5d}"]
    parts += [f"{name} {value:.3f}" for name, value in (("loss", loss), ("val", val)) if value is not None]
    return GAP.join(parts)


def duration(seconds: float) -> str:
    """`1:29`, `2:03:09` or `3 d 4 h`."""
    if seconds >= DAY:
        days, hours = divmod(round(seconds / 3600), 24)
        return f"{days} d {hours} h"
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"
