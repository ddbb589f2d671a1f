"""The error of a person who names a folder of pictures that is not there."""

import difflib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.shell import quoted
from lun.data.index.listing import Listing, listing

READER = "lun.data.local.Local"
"""What reads a folder; other data sets say themselves what they miss."""
_SHOWN = 6


def require_folder(recipe: Mapping[str, Any], split: str) -> None:
    """Raise what building the dataset of `recipe` would, a `Fault` DAT01, where the folder that it reads is not there.

    split  the setting below `data.params` that holds it: `train`, `validation`, `train.sets.NAME`
    """
    if recipe.get("target") != READER:
        return
    try:
        check_folder(Path(recipe["params"]["data_root"]).expanduser())
    except Fault as fault:
        of_split(fault, split)
        raise


@contextmanager
def folder_given_by(word: str, split: str) -> Iterator[None]:
    """Let faults of a folder name what gives it, for a command that has no `--data_root`.

    word   an option (`--data`), a command line that takes the folder as DIR next (`python -m lun.pack`), or '' where
           the configuration names it
    split  as for `require_folder`
    """
    try:
        yield
    except Fault as fault:
        setting = f"data.params.{split}.params.data_root"
        if fault.where in ("--data_root", setting):
            fault.where = (word if word.startswith("--") else "DIR") if word else setting
        option = f"{word} " if word else ""
        fault.fix = fault.fix.replace("--data_root " + f"{_set_of(split)}=", option).replace("--data_root ", option)
        raise


def named_recipes(split: str, one: Mapping[str, Any] | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A dataset's recipe, or those of several sets, by the settings that hold them; none for what is switched off."""
    sets = one.get("sets") if one else None
    named = {split: one} if sets is None else {f"{split}.sets.{name}": each for name, each in sets.items()}
    yield from ((name, recipe) for name, recipe in named.items() if recipe is not None)


def check_folder(root: Path) -> None:
    """Raise `Fault` DAT01 unless `root` is a folder that can be listed."""
    if not root.is_dir():
        raise _no_folder(root)
    if not os.access(root, os.R_OK | os.X_OK):
        raise Fault("DAT01", f"data folder cannot be read: {root}", where="--data_root", why="permission denied")


def of_split(fault: Fault, split: str) -> None:
    """Let a fault of a folder speak of the split or set that reads it."""
    fault.fix = fault.fix.replace("data.params.train.", f"data.params.{split}.")
    if name := _set_of(split):
        fault.fix = fault.fix.replace("--data_root ", "--data_root " + f"{name}=")
        fault.where = (
            f"data.params.{split}.params.data_root" if fault.where == "--data_root" else f"{fault.where} (set {name})"
        )


def _set_of(split: str) -> str:
    """The name of the set, '' where there is one alone."""
    _, among_sets, name = split.partition(".sets.")
    return name if among_sets else ""


def _no_folder(root: Path) -> Fault:
    if root.exists():
        return Fault(
            "DAT01", f"data folder is a file: {root}", where="--data_root", fix=f"--data_root {quoted(root.parent)}"
        )
    parent = next(folder for folder in root.absolute().parents if folder.is_dir())
    try:
        inside = listing(parent)
    except OSError as error:
        return Fault(
            "DAT01",
            f"data folder not found: {root}",
            where="--data_root",
            why=f"the nearest existing parent is {parent}, which cannot be read: {error.strerror}",
        )
    near = _similar(root, parent, inside)
    fix = f"--data_root {quoted(near)}" if near else "pass an existing folder; in a container, mount it first"
    return Fault(
        "DAT01",
        f"data folder not found: {root}",
        where="--data_root",
        why=f"the nearest existing parent is {parent}, which contains: {contents(inside)}",
        fix=fix,
    )


def _similar(root: Path, parent: Path, inside: Listing) -> Path | None:
    """What `root` may be a misspelling of: its first unknown part read as a folder that `parent` has."""
    wanted, *rest = root.absolute().relative_to(parent).parts
    names = difflib.get_close_matches(wanted, inside.folders, n=1)
    whole = [parent.joinpath(name, *rest) for name in names]
    return next((folder for folder in [*whole, *(parent / name for name in names)] if folder.is_dir()), None)


def contents(inside: Listing) -> str:
    """A folder's contents in words: `3 folders (img/ log/ model/), 12 .mp4 files`."""
    parts = []
    if inside.folders:
        more = " ..." if len(inside.folders) > _SHOWN else ""
        names = " ".join(f"{name}/" for name in inside.folders[:_SHOWN])
        parts.append(f"{_counted(len(inside.folders), 'folder')} ({names}{more})")
    counts = {"image": len(inside.images), ".txt file": len(inside.captions)}
    parts += [_counted(number, word) for word, number in counts.items() if number]
    parts += [_counted(number, _word(extension)) for extension, number in inside.others.most_common(_SHOWN)]
    return ", ".join(parts) or "nothing"


def _word(extension: str) -> str:
    return f"{extension} file" if extension.startswith(".") else "other file"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")
