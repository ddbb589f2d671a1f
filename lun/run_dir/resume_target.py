"""What `--resume` names, by names alone: a file, a run directory, or nothing that is there."""

import os
from difflib import get_close_matches
from pathlib import Path

from ldm.errors import Fault
from ldm.operating_system import is_folder_link
from ldm.shell import quoted
from lun.run_dir.directory import LATEST, RunDirectory


def resume_target(target: str | None, logdir: Path = Path("logs")) -> tuple[Path, tuple[RunDirectory, Path] | None]:
    """The file or folder that is meant, and the run that it lies in with its path there, if it lies in one.

    target   a file, a run directory (or a folder in its checkpoints/), or None for the latest run in `logdir`
    Raises `Fault` RES01 where nothing is there, or a folder that lies in no run.
    """
    path = logdir / LATEST if target is None else Path(target)
    if not path.exists():
        raise _nothing_there(path, target, logdir)
    named = in_run(Path(os.path.abspath(path)))
    if named is None and not path.is_file():
        raise _no_run(path)
    return path, named


def in_run(path: Path) -> tuple[RunDirectory, Path] | None:
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


def _nothing_there(path: Path, target: str | None, logdir: Path) -> Fault:
    if target is None:
        return Fault(
            "RES01",
            f"there is no latest run in {logdir}",
            where="--resume",
            fix="name the run: --resume logs/RUN",
        )
    if (named := in_run(Path(os.path.abspath(path)))) and path.suffix == ".ckpt":
        return _no_such_file(path, named[0])
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


def _runs_in(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(
        entry.name for entry in folder.iterdir() if (entry / "configs").is_dir() and not is_folder_link(entry)
    )
