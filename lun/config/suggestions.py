"""Nearest matches for misspelt names, and raising several faults at once."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from ldm.errors import Fault

T = TypeVar("T")


def nearest(word: str, choices: Iterable[str]) -> str | None:
    """The choice most like `word`, compared without case, dashes and underscores; None when nothing is close."""
    by_letters = {_letters(choice): choice for choice in sorted(choices, reverse=True)}
    matches = difflib.get_close_matches(_letters(word), by_letters, n=1, cutoff=0.6)
    return by_letters[matches[0]] if matches else None


def did_you_mean(word: str, choices: Iterable[str], *, prefix: str = "") -> str:
    """`did you mean X?` for the nearest choice, or an empty string."""
    near = nearest(word, choices)
    return f"did you mean {prefix}{near}?" if near else ""


def raise_all(faults: Sequence[Fault]) -> None:
    """Raise the only fault as it is, several as an ExceptionGroup (`except* Fault` takes both), none not at all.

    What several checks met in the same words is one fault.
    """
    different = list({str(fault): fault for fault in faults}.values())
    if len(different) == 1:
        raise different[0]
    if different:
        raise ExceptionGroup(f"{len(different)} faults in the configuration", different)


class FaultCollector:
    """Carries out one step after another and keeps what each has to say, so that a person reads all of it at once."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def collect(self, step: Callable[[], T]) -> T | None:
        """What `step` returns; None where it raised a `Fault` or a group of nothing else."""
        try:
            return step()
        except Fault as fault:
            self.faults.append(fault)
        except ExceptionGroup as group:
            faults = [error for error in group.exceptions if isinstance(error, Fault)]
            if len(faults) != len(group.exceptions):
                raise
            self.faults += faults
        return None

    def raise_all(self) -> None:
        """Raise what was collected."""
        raise_all(self.faults)


def _letters(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")
