"""kohya's `meta_cap.json` and its like: one JSON file from names of pictures to their captions and tags."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.plain import parse_json
from lun.data.index.dir_handle import open_file
from lun.data.index.listing import EXTENSIONS, Tree, composed, extension, joined, stem
from lun.data.layouts.folder_contents import FolderContents
from lun.data.metadata.caption_files import one_line
from lun.data.metadata.description import inside
from lun.data.metadata.picture_table import Table
from lun.data.metadata.table_builder import NO_PATH, NO_WORDS, OUTSIDE, SOUND, UNREADABLE, Rows

_BEST = ("meta_lat.json", "meta_clean.json", "meta_cap_dd.json", "meta_cap.json")
"""What the steps of kohya's preparation write, the last first: each holds what those before it say."""

_LOOKED_INTO = 20
_BEGINNING = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.)+"\s*:\s*\{')


def kohya_json_file(tree: Tree) -> str | None:
    """The file in the root that maps names to descriptions, recognised by its first bytes."""
    names = [name for name in tree.top.names if extension(name) == "json"]
    known = [name for name in _BEST if name in names]
    others = sorted(set(names) - set(known), key=lambda name: (not name.startswith("meta"), name))
    return next((name for name in [*known, *others][:_LOOKED_INTO] if _is_map(tree.root / name)), None)


def _is_map(path: Path) -> bool:
    try:
        with open_file(path) as file:
            return _BEGINNING.match(file.read(1 << 14).removeprefix(b"\xef\xbb\xbf")) is not None
    except OSError:
        return False


def read_kohya_json(tree: Tree, file: str) -> FolderContents:
    """The pictures that `file` names, with or without folder and ending, and `caption, tags` as kohya joins them.

    Raises `Fault` DAT03 for a file that is no such JSON.
    """
    entries, by_stem, rows = _entries(tree.root / file), _by_stem(tree), Rows()
    for key, entry in entries.items():
        problem, path = _resolved(key, tree.root, by_stem) if isinstance(entry, dict) else (UNREADABLE, key)
        text = _caption(entry) if isinstance(entry, dict) else ""
        rows.add(path, file, text, numbers={"problem": problem or (SOUND if text else NO_WORDS)})
    words = f"kohya's {file}, {len(entries):,} entries"
    return FolderContents("kohya-json", words, Table.of(rows.packed()), paths_from_metadata=True)


def _entries(path: Path) -> dict[str, Any]:
    try:
        with open_file(path) as file:
            entries = parse_json(file.read())
    except (OSError, ValueError) as error:
        raise Fault("DAT03", f"{path} cannot be read", where=str(path), why=str(error)) from error
    if not isinstance(entries, dict):
        raise Fault("DAT03", f"{path} is no map from pictures to captions", where=str(path))
    return entries


def _caption(entry: Mapping[str, Any]) -> str:
    """`caption, tags` as kohya joins them; of several captions each with the tags, one to a line."""
    tags, given = entry.get("tags"), entry.get("caption")
    after = ", ".join(map(str, tags)) if isinstance(tags, list) else tags
    captions = [text for text in given if isinstance(text, str)] if isinstance(given, list) else [given]
    made = [
        ", ".join(part.strip() for part in (caption, after) if isinstance(part, str) and part.strip())
        for caption in captions or [None]
    ]
    return "\n".join(map(one_line, made)) if len(made) > 1 else made[0]


def _by_stem(tree: Tree) -> dict[str, str]:
    """Path without its ending, and name without its ending where only one picture has it -> path."""
    whole: dict[str, str] = {}
    bare: dict[str, str | None] = {}
    for folder, listed in tree.walk():
        for image in listed.images:
            path, name = joined(folder, image), composed(stem(image))
            whole.setdefault(composed(stem(path)), path)
            bare[name] = None if name in bare else path
    return {name: path for name, path in bare.items() if path} | whole


def _resolved(key: str, root: Path, by_stem: Mapping[str, str]) -> tuple[int, str]:
    """(problem, path) of one key; absolute ones (`--full_path`) count if they lie in the folder."""
    if not key:
        return NO_PATH, ""
    within = os.path.relpath(key, root.absolute()) if os.path.isabs(key) else key
    path = inside(within)
    if path is None:
        return OUTSIDE, key
    if extension(path) in EXTENSIONS:
        path = stem(path)
        return SOUND, by_stem.get(composed(path), f"{path}.{extension(key)}")
    return SOUND, by_stem.get(composed(path), f"{path}.png")
