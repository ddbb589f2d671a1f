"""What is compared: the checkpoints of runs, files, and the weights that runs started from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.files.weights_path import path_of_weights
from lun.checkpoints.atomic import moment_of, peek
from lun.config.stored import read_stored, stored_value
from lun.run_dir.directory import RunDirectory
from lun.run_dir.resume import find_checkpoint, kept_checkpoints
from lun.sample.opened_model import pictures_of_run


@dataclass(frozen=True)
class ComparedSource:
    """A model to draw from.

    given   what opens it: a file, a folder or a hub id
    run     the run whose file it is, None for any other
    step    of the run's checkpoint
    listed  whether the run was named, and not this file of it
    is_base whether a run started from it, and with `base_average` from its averaged weights
    """

    given: str
    name: str
    run: RunDirectory | None = None
    step: int | None = None
    listed: bool = False
    is_base: bool = False
    base_average: bool = False


def compared_sources(given: Sequence[str], newest: bool = False, base: bool = False) -> list[ComparedSource]:
    """The models that the words mean, each once, those that runs started from first where they are asked for.

    newest  of a run its newest checkpoint, instead of all that it keeps
    Raises `Fault` MOD01 for a path at which nothing is, RES01 for a run without a checkpoint, CFG08 for a base that no
    run names.
    """
    found = list({source.given: source for word in given for source in _of_word(word, newest)}.values())
    if newest and not any(source.listed for source in found):
        raise Fault("CFG08", "--newest has no effect: no run is named", where="--newest", fix="leave it out")
    return [*_bases(found), *found] if base else found


def _of_word(word: str, newest: bool) -> Iterator[ComparedSource]:
    path = path_of_weights(word)
    if path is None or not path.is_dir() or not (path / "configs").is_dir():
        run = RunDirectory.around(path, "checkpoints", "exports") if path and path.is_file() else None
        name = path.stem if path and path.is_file() else Path(word).name
        step = moment_of(peek(path))[0] if run and path else None
        yield ComparedSource(word, f"{run.name} {name}" if run else name, run, step)
        return
    run = RunDirectory(path.resolve())
    if newest:
        resume = find_checkpoint(str(run.path))
        yield ComparedSource(str(resume.checkpoint), run.name, run, resume.step, listed=True)
        return
    if not (kept := kept_checkpoints(run)):
        find_checkpoint(str(run.path))  # which says why there is none
    for entry in kept:
        yield ComparedSource(str(entry.path), run.name, run, entry.step, listed=True)


def _bases(sources: Sequence[ComparedSource]) -> list[ComparedSource]:
    runs = list({source.run.path: source.run for source in sources if source.run}.values())
    found = list(dict.fromkeys(base for run in runs for base in _base(run)))
    if not found:
        why = f"{runs[0].path} started from random weights, or from those of parts" if runs else "no run is named"
        fix = "name its file as a further SOURCE"
        raise Fault("CFG08", "no run says which base model it started from", where="--base-model", why=why, fix=fix)
    return found


def _base(run: RunDirectory) -> Iterator[ComparedSource]:
    """The whole model that a run started from, if its configuration names one. Raises `Fault` MOD01 if it is gone."""
    config: dict[str, Any] = read_stored(run.resolved_config) if run.resolved_config.is_file() else {}
    given = stored_value(config, "model.params.ckpt_path", str)
    if given:
        path_of_weights(given)
        averaged = bool(stored_value(config, "model.params.init_from_ema", bool))
        yield ComparedSource(given, f"base {Path(given).stem}", is_base=True, base_average=averaged)


def settings_of_first_run(sources: Sequence[ComparedSource]) -> dict[str, Any]:
    """What the first run says of its own pictures, its prompts among it, by which all columns are drawn; else {}."""
    run = next((source.run for source in sources if source.run and source.run.resolved_config.is_file()), None)
    return pictures_of_run(read_stored(run.resolved_config)) if run else {}
