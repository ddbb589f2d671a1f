"""Finding the YAML files that a command line names."""

from pathlib import Path
from typing import Any

from ldm.errors import Fault
from lun.config.suggestions import nearest

FOLDERS = (".", "configs", "configs/models", "configs/options", "configs/data", "configs/demo")
SUFFIXES = ("", ".yaml", ".yml")
LARGEST = 4 << 20
"""Bytes; the longest config that is shipped has 6 thousand."""
_PACKAGE = Path(__file__).resolve().parents[2]
# A wheel holds the configs as `lun/configs`; in a checkout they lie beside `lun`.
HOME = _PACKAGE if (_PACKAGE / "configs").is_dir() else _PACKAGE.parent


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


def read_text(file: Path) -> str:
    """The text of a config. Raises `Fault` CFG02 for what is none: too large, no ordinary file, not UTF-8."""
    name = file.as_posix()
    if not file.is_file():
        raise Fault("CFG02", f"{name} is not a config", where=name, why="it is no ordinary file")
    if (size := file.stat().st_size) > LARGEST:
        raise Fault("CFG02", f"{name} is not a config", where=name, why=f"it has {size:,} bytes; {LARGEST:,} are read")
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise Fault(
            "CFG02",
            f"{name} is not valid YAML",
            where=name,
            why=f"it is not UTF-8 text ({error.reason})",
            fix="save the file as UTF-8",
        ) from error


def anchored(value: Any) -> Any:
    """A configuration whose paths `configs/...` that do not exist from here are those of the program's own files."""
    if isinstance(value, dict):
        return {key: anchored(item) for key, item in value.items()}
    if isinstance(value, list):
        return [anchored(item) for item in value]
    if isinstance(value, str) and value.startswith("configs/") and not Path(value).exists():
        return (HOME / value).as_posix() if (HOME / value).exists() else value
    return value


def _folders() -> list[Path]:
    places = [Path()] if Path.cwd() == HOME else [Path(), HOME]
    return [place / folder for place in places for folder in FOLDERS]


def _suggestion(name: str) -> str:
    known = [path for folder in _folders() for path in sorted(folder.glob("*.y*ml"))]
    by_stem = {path.stem: path.as_posix() for path in reversed(known)}
    near = nearest(Path(name).stem, by_stem)
    return f"did you mean {by_stem[near]}?" if near else ""
