"""Which checkpoint a resumed run goes on from."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.shell import quoted
from lun.checkpoints.atomic import peek, unfit, unreadable
from lun.run_dir.directory import RunDirectory
from lun.run_dir.resume_target import resume_target

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
    path, named = resume_target(target, logdir)
    if named is None or path.is_file():
        return _one_file(path, named)
    run = named[0]
    candidates, damaged = _candidates(run)
    chosen = _newest_whole(run, candidates, damaged)
    if chosen is None:
        raise _no_checkpoint(run, damaged)
    _log_abandoned(run, chosen, candidates)
    return _resume(run, chosen, candidates)


def kept_checkpoints(run: RunDirectory) -> list[Candidate]:
    """The checkpoints along which a run came to where it is, by their steps, one for each step.

    Left out is what cannot be opened, what was saved when training had diverged, and what an earlier attempt saved
    beyond the first file of a later one. Whether a file is whole is for `unreadable` to say.
    """
    found = [entry for entry in _candidates(run)[0] if not entry.diverged]
    first = {attempt: min(e.step for e in found if e.attempt == attempt) for attempt in {e.attempt for e in found}}
    kept: dict[int, Candidate] = {}
    for entry in sorted(found, key=lambda e: (-e.attempt, len(e.path.parts), e.path.name)):
        if not any(attempt > entry.attempt and entry.step > step for attempt, step in first.items()):
            kept.setdefault(entry.step, entry)
    return [kept[step] for step in sorted(kept)]


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
        reason = DIVERGED if candidate.diverged else unfit(candidate.path)
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


def _log_abandoned(run: RunDirectory, chosen: Candidate, candidates: list[Candidate]) -> None:
    """Name the files that no longer lead anywhere: later steps of earlier attempts."""
    abandoned = [entry for entry in candidates if entry.attempt < chosen.attempt and entry.step > chosen.step]
    if abandoned:
        names = ", ".join(f"{entry.path.relative_to(run.path)} (step {entry.step})" for entry in abandoned)
        log.info("note: of an attempt that was not gone on with, left alone: %s", names)


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
