"""Answers that take seconds to find and follow from settings and versions alone, kept from one start to the next."""

import functools
import hashlib
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ldm.admission import DRAWER, LIBRARIES, OPTIMIZERS, PROJECT
from ldm.files.replacing import replace_text
from ldm.place import cache_root, is_own, private_folder
from ldm.plain import read_json

PROGRAM = Path(__file__).parents[1]
SETTLED = tuple(package for package in (*PROJECT, *LIBRARIES) if package not in OPTIMIZERS)
"""Packages whose objects are the same wherever this version of them is installed, but for a person's own modules in
`DRAWER`; optimizers' ask what a device has."""
INSTALLED = ("site-packages", "dist-packages")
FOLDER = "answers"
MOST_FILES = 1000
"""Of a folder that settings name: what holds more is no model's, and not looked through."""


def remembered(question: str, settings: Any, find: Callable[[], Any]) -> Any:
    """The answer that `find` gives, which is asked only where no earlier start with the same settings kept it.

    question  what is asked, a file's name
    settings  all that the answer follows from: plain values (`json`), recipes, and files and folders by their paths,
              whose names, sizes and times count as well
    find      its answer is made of maps with text keys, lists, texts, numbers, booleans and None

    What another version of this program or of its libraries answered counts for nothing. Nothing is kept of settings
    that are not plain or name packages besides `SETTLED`, and where the cache belongs to others or cannot be written;
    an error of `find` is raised.
    """
    try:
        text = json.dumps([question, settings, list(_states(settings))], sort_keys=True)
    except (TypeError, ValueError, _Unknown):
        return find()
    asked = hashlib.sha256(text.encode()).hexdigest()
    path = cache_root() / FOLDER / f"{question}-{asked[:20]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        if private_folder(path.parent) and is_own(os.lstat(path), stat.S_ISREG):
            kept = read_json(path)
            if (kept["asked"], kept["versions"]) == (asked, versions()):
                return kept["answer"]
    answer = find()
    with suppress(OSError):  # the next start finds it again
        if private_folder(path.parent):
            replace_text(path, json.dumps({"asked": asked, "versions": versions(), "answer": answer}))
    return answer


@functools.cache
def versions() -> str:
    """A digest of what answers come from: Python, the folders of installed packages with the times at which something
    was last installed, and the names, sizes and times of this program's modules."""
    made_by = [sys.version]
    for folder in map(Path, sys.path):
        if folder.name in INSTALLED and folder.is_dir():
            made_by.append(f"{folder} {folder.stat().st_mtime_ns}")
    for package in PROJECT:
        made_by += sorted(_files(PROGRAM / package, ".py"))
    return hashlib.sha256("\n".join(made_by).encode()).hexdigest()


class _Unknown(Exception):
    """Settings name what may change unnoticed: a package that is not `SETTLED`, a folder of too many files."""


def _states(value: Any) -> Iterator[list[str]]:
    """The state of each file and folder that a text in `value` is the path of. Raises `_Unknown`."""
    if isinstance(value, Mapping):
        target = str(value.get("target", PROJECT[0]))
        if target.partition(".")[0] not in SETTLED or f"{target}.".startswith(f"{DRAWER}."):
            raise _Unknown
        for item in value.values():
            yield from _states(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _states(item)
    elif isinstance(value, str) and value and (state := _state(Path(value))):
        yield state


def _state(path: Path) -> list[str]:
    try:
        path = path.expanduser()
        if path.is_dir():
            return sorted(_files(path, most=MOST_FILES))
        found = path.stat()
    except (OSError, ValueError, RuntimeError):  # no path, or that of a user who is not there
        return []
    return [f"{path} {found.st_size} {found.st_mtime_ns}"]


def _files(folder: Path, ending: str = "", most: int | None = None) -> Iterator[str]:
    """Name, size and time of each file below a folder. Raises `_Unknown` above `most` files."""
    count = 0
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            count += 1
            if most is not None and count > most:
                raise _Unknown
            if name.endswith(ending):
                found = os.stat(os.path.join(above, name))
                yield f"{above}/{name} {found.st_size} {found.st_mtime_ns}"
