"""Finding the YAML files that a command line names."""

from pathlib import Path

from ldm.errors import Fault
from lun.config.errors import nearest

FOLDERS = (".", "configs", "configs/models", "configs/options", "configs/data", "configs/demo")
SUFFIXES = ("", ".yaml", ".yml")
_PROJECT = Path(__file__).resolve().parents[2]


def find_config(name: str, position: int = 1) -> Path:
    """The file that `name` means, with or without its suffix, here or in one of the project's config folders.

    A folder of configs with a single YAML file stands for that file. Raises `Fault` CFG01.
    """
    for folder in _folders():
        for suffix in SUFFIXES:
            candidate = folder / (name + suffix)
            if candidate.is_file():
                return candidate
            inside = sorted(candidate.glob("*.y*ml")) if candidate.is_dir() else []
            if len(inside) == 1:
                return inside[0]
    raise Fault(
        "CFG01",
        f"config file not found: {name}",
        where=f"--base, file {position}; looked in {', '.join(FOLDERS)}",
        fix=_suggestion(name),
    )


def _folders() -> list[Path]:
    here = [Path(folder) for folder in FOLDERS]
    return here + [_PROJECT / folder for folder in FOLDERS[1:]]


def _suggestion(name: str) -> str:
    known = {path.as_posix() for folder in FOLDERS for path in Path(folder).glob("*.y*ml")}
    by_stem = {Path(path).stem: path for path in sorted(known, reverse=True)}
    near = nearest(Path(name).stem, by_stem)
    return f"did you mean {by_stem[near]}?" if near else ""
