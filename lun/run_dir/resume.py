"""Which checkpoint a resumed run goes on from."""

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.shell import quoted
from lun.checkpoints.atomic import peek, spoilt, unreadable
from lun.run_dir.directory import LATEST, RunDirectory

log = logging.getLogger(__name__)

ENOUGH_TO_GO_ON = ("state_dict", "global_step")
DIVERGED = "it was saved when training had diverged; to go on from it with other settings, name the file"


@dataclass(frozen=True)
class Resume:
    """Where a run goes on.

    checkpoint   the file to restore
    step         optimizer steps that it holds
    attempt      the number of the start that is about to happen
    stored       the checkpoint's `lun` entry: position, data, threads, ...; empty in a file of 2022
    """

    run: RunDirectory
    checkpoint: Path
    step: int
    attempt: int
    stored: Mapping[str, Any]

    @property
    def resumed_from(self) -> str:
        """The checkpoint below its run directory, as it is noted in the run and in later checkpoints."""
        return self.checkpoint.relative_to(self.run.path).as_posix()


@dataclass(frozen=True)
class Candidate:
    """A checkpoint file that could be opened; attempt 0 wrote the files of 2022."""

    path: Path
    step: int
    attempt: int
    stored: Mapping[str, Any]

    @property
    def diverged(self) -> bool:
        """Whether it was saved when training ended because its numbers were not finite any more."""
        return bool(self.stored.get("diverged"))


def find_checkpoint(target: str | None, logdir: Path = Path("logs")) -> Resume:
    """The checkpoint that `--resume target` means.

    target   a file, a run directory (or a folder in its checkpoints/), or None for the latest run in `logdir`

    In a run the newest is the highest step of the latest attempt that saved; where that saved nothing, the file that
    it had resumed. Files that are damaged, hold NaN, or were saved when training diverged are passed over with a
    warning; the last kind may be named. Raises `Fault` RES01 if there is nothing to
    resume and RES02 if the file is not one of a run.
    """
    path = logdir / LATEST if target is None else Path(target)
    if not path.exists():
        raise _nothing_there(path, target, logdir)
    named = _in_run(Path(os.path.abspath(path)))
    if path.is_file():
        return _one_file(path, named)
    if named is None:
        raise _no_run(path)
    run = named[0]
    candidates, damaged = _candidates(run)
    chosen = _newest_whole(run, candidates, damaged)
    if chosen is None:
        raise _no_checkpoint(run, damaged)
    _tell_abandoned(run, chosen, candidates)
    return _resume(run, chosen, candidates)


def _one_file(named: Path, in_run: tuple[RunDirectory, Path] | None) -> Resume:
    if in_run is None:
        raise _not_of_a_run(named, "it does not lie in a run directory (configs/ beside checkpoints/)")
    run, path = in_run
    if reason := unreadable(path):
        raise Fault(
            "RES01",
            f"{path} is damaged and cannot be resumed",
            why=reason,
            fix=f"--resume {quoted(run.path)}        (the newest whole checkpoint of the run)",
        )
    candidate = _candidate(path)
    if candidate is None:
        raise _not_of_a_run(named, "it has weights but no training state (step, optimizer)")
    return _resume(run, candidate, _candidates(run)[0])


def _resume(run: RunDirectory, chosen: Candidate, candidates: list[Candidate]) -> Resume:
    record = run.record()
    attempts = [candidate.attempt for candidate in candidates] + [record.attempt if record else 0, 1]
    return Resume(run, chosen.path, chosen.step, max(attempts) + 1, chosen.stored)


def _in_run(path: Path) -> tuple[RunDirectory, Path] | None:
    """The run directory that is `path` or has it under `checkpoints/`, and `path` in it; links to the run are followed.

    `checkpoints/` itself may be a link to another disk, so it is looked for by name.
    """
    if (path / "configs").is_dir():
        return RunDirectory(path.resolve()), path.resolve()
    for folder in (path, *path.parents):
        if folder.name == "checkpoints" and (folder.parent / "configs").is_dir():
            run = RunDirectory(folder.parent.resolve())
            return run, run.checkpoints / path.relative_to(folder)
    return None


def _candidates(run: RunDirectory) -> tuple[list[Candidate], dict[Path, str]]:
    """All files that can be opened and hold a training state, and why the others cannot."""
    candidates, damaged = [], {}
    for path in sorted(run.checkpoints.rglob("*.ckpt")):
        if path.name.startswith("."):
            continue
        candidate = _candidate(path)
        if candidate is None:
            damaged[path] = unreadable(path) or "it has no training state"
            log.warning("passing over %s: %s", path, damaged[path])
        else:
            candidates.append(candidate)
    return candidates, damaged


def _candidate(path: Path) -> Candidate | None:
    state = peek(path)
    stored = state.get("lun") or {}
    if not all(key in state for key in ENOUGH_TO_GO_ON) or (stored and "optimizer_states" not in state):
        return None
    step = stored.get("position", {}).get("step", state["global_step"])
    return Candidate(path, int(step), int(stored.get("attempt", 0)), stored)


def _newest_whole(run: RunDirectory, candidates: list[Candidate], damaged: dict[Path, str]) -> Candidate | None:
    for candidate in _by_preference(run, candidates):
        reason = DIVERGED if candidate.diverged else unreadable(candidate.path) or spoilt(candidate.path)
        if reason is None:
            return candidate
        damaged[candidate.path] = reason
        log.warning("passing over %s: %s", candidate.path, reason)
    return None


def _by_preference(run: RunDirectory, candidates: list[Candidate]) -> Iterator[Candidate]:
    """Attempts from the latest down, in each the highest step first, then the file that the attempt went on from."""
    record = run.record()
    attempts = {candidate.attempt for candidate in candidates} | ({record.attempt} if record else set())
    for attempt in sorted(attempts, reverse=True):
        own = [candidate for candidate in candidates if candidate.attempt == attempt]
        yield from sorted(own, key=lambda candidate: (-candidate.step, len(candidate.path.parts), candidate.path.name))
        sources = {candidate.stored.get("resumed_from") for candidate in own}
        if record and record.attempt == attempt:
            sources.add(record.resumed_from)
        yield from (entry for entry in candidates if entry.path.relative_to(run.path).as_posix() in sources)


def _tell_abandoned(run: RunDirectory, chosen: Candidate, candidates: list[Candidate]) -> None:
    """Name the files that no longer lead anywhere: later steps of earlier attempts."""
    abandoned = [entry for entry in candidates if entry.attempt < chosen.attempt and entry.step > chosen.step]
    if abandoned:
        names = ", ".join(f"{entry.path.relative_to(run.path)} (step {entry.step})" for entry in abandoned)
        log.info("note: of an attempt that was not gone on with, left alone: %s", names)


def _nothing_there(path: Path, target: str | None, logdir: Path) -> Fault:
    if target is None:
        return Fault(
            "RES01",
            f"there is no latest run in {logdir}",
            where="--resume",
            fix="name the run: --resume logs/RUN",
        )
    if (in_run := _in_run(Path(os.path.abspath(path)))) and path.suffix == ".ckpt":
        return _no_such_file(path, in_run[0])
    folder = path.parent if path.parent.is_dir() else logdir
    names = _runs_in(folder)
    near = get_close_matches(path.name, [*names, *([LATEST] if (folder / LATEST).exists() else [])], n=1)
    listed = ", ".join(names[-5:])
    return Fault(
        "RES01",
        f"there is no {target}",
        where="--resume",
        why=f"{folder} holds these runs: {listed}" if names else f"{folder} holds no runs",
        fix=f"--resume {quoted(folder / near[0])}" if near else "--resume RUN, or a file in its checkpoints/",
    )


def _no_such_file(path: Path, run: RunDirectory) -> Fault:
    """A run is there, but not this file of it: names those that are, and the nearest."""
    names = {file.relative_to(run.checkpoints).as_posix(): file for file in sorted(run.checkpoints.rglob("*.ckpt"))}
    near = get_close_matches(path.name, names, n=1, cutoff=0.4)
    return Fault(
        "RES01",
        f"there is no {path}",
        where="--resume",
        why=f"{run.checkpoints} holds {', '.join(names) or 'no checkpoint'}",
        fix=f"--resume {quoted(names[near[0]] if near else run.path)}",
    )


def _no_run(path: Path) -> Fault:
    names = _runs_in(path)
    return Fault(
        "RES01",
        f"{path} is not a run directory",
        where="--resume",
        why="a run directory has configs/ beside checkpoints/",
        fix=f"--resume {quoted(path / names[-1])}" if names else "--resume logs/RUN",
    )


def _not_of_a_run(path: Path, why: str) -> Fault:
    return Fault(
        "RES02",
        f"{path} cannot be resumed",
        why=why,
        fix=f"--init-from {quoted(path)}        (new run from these weights)",
    )


def _no_checkpoint(run: RunDirectory, damaged: Mapping[Path, str]) -> Fault:
    record = run.record()
    if damaged:
        why = "\n".join(f"{path.relative_to(run.path)}: {reason}" for path, reason in damaged.items())
    elif record:
        why = f"the run stopped at step {record.steps}, before the first save"
    else:
        why = f"{run.checkpoints} holds no .ckpt file"
    diverged = next((path for path, reason in damaged.items() if reason == DIVERGED), None)
    return Fault(
        "RES01",
        f"no checkpoint in {run.path}" if not damaged else f"no whole checkpoint in {run.path}",
        why=why,
        fix=(f"--resume {quoted(diverged)} model.base_learning_rate=...   (a lower one), or\n" if diverged else "")
        + "start it again without --resume, or save more often: "
        "lightning.callbacks.periodic_checkpoint_overwrite.params.every_n_train_steps=500",
    )


def _runs_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(entry.name for entry in folder.iterdir() if (entry / "configs").is_dir() and not entry.is_symlink())
