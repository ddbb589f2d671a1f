"""Which of its files a saver keeps: the best by a metric, or the newest."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lun.checkpoints.atomic import moment_of, peek

KEEP_ALL = -1


@dataclass(frozen=True)
class Saved:
    """A file of a saver: its path below the run directory, the step that it holds, and its score where one ranks."""

    path: str
    step: int
    score: float | None = None

    def row(self) -> list[Any]:
        return [self.path, self.step, self.score]


@dataclass(frozen=True)
class Ranking:
    """What is there once a new file is written: the files that stay, best or newest first, and those to delete."""

    kept: list[Saved]
    dropped: list[Saved]


def place(saved: Sequence[Saved], new: Saved, keep: int, mode: Literal["min", "max"] = "min") -> Ranking | None:
    """Where `new` comes among `saved`; None if it is not worth writing.

    Without scores the newest stay. A file that `new` would overwrite has to be beaten by it.
    """
    if keep == KEEP_ALL:
        return Ranking([], [])

    def rank(entry: Saved) -> tuple[float, int]:
        if entry.score is None:
            return -entry.step, 0
        return (entry.score if mode == "min" else -entry.score), entry.step

    ordered = sorted([*saved, new], key=rank)
    position = ordered.index(new)
    if position >= keep or any(entry.path == new.path for entry in ordered[:position]):
        return None
    others = [entry for entry in ordered if entry.path != new.path or entry is new]
    return Ranking(others[:keep], others[keep:])


def still_there(root: Path, saved: Sequence[Saved]) -> list[Saved]:
    """Those whose file still holds the step that was noted; another branch of the run may have replaced it."""
    return [entry for entry in saved if _step(root / entry.path) == entry.step]


def written_at(root: Path, directory: Path, state_key: str, step: int, attempt: int | None) -> list[Saved]:
    """Files that a saver wrote at `step` in `attempt`, by the list that each of them holds.

    A run that is resumed from another saver's file of that step finds them here: that file was written before them.
    """
    matches = []
    for path in sorted(directory.rglob("*.ckpt")):
        state = peek(path)
        ours = state.get("lun", {})
        if ours.get("attempt") == attempt and ours.get("position", {}).get("step") == step:
            entries = [Saved(*row) for row in state.get("callbacks", {}).get(state_key, {}).get("saved", [])]
            matches += [entry for entry in entries if root / entry.path == path and entry.step == step]
    return matches


def attempt_of(path: Path) -> int | None:
    """The attempt of the run that wrote a file, None if it does not say."""
    return moment_of(peek(path))[1]


def left_alone(path: Path, attempt: int) -> Path:
    """Where `attempt` may write instead of `path`: a file there that another attempt wrote is left to it."""
    if path.exists() and attempt_of(path) != attempt:
        return path.with_name(f"{path.stem}-attempt{attempt}.ckpt")
    return path


def _step(path: Path) -> int | None:
    return moment_of(peek(path))[0]
