"""Which layout a folder has, by names and from what descriptions say, and its contents read accordingly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from ldm.errors import Fault
from lun.data.index.listing import CAPTION_FOLDER, Listing, Tree, joined
from lun.data.index.looked_once import as_column, from_column, one_look
from lun.data.index.missing_data import no_images
from lun.data.index.missing_folder import check_folder
from lun.data.layouts.board import FOLDER, has_json, read_board
from lun.data.layouts.folder_contents import Asked, FolderContents, LayoutName
from lun.data.layouts.kohya_json import kohya_json_file, read_kohya_json
from lun.data.layouts.lines import IMAGEFOLDER, read_described
from lun.data.layouts.pairs import (
    flat_folders,
    has_flat_captions,
    is_kohya_name,
    read_flat,
    read_kohya,
    read_sidecars,
)
from lun.data.metadata.table_builder import NO_WORDS, SOUND

log = logging.getLogger(__name__)

_LOOKED_FOR: dict[LayoutName, str] = {
    "flat": "images in img/, in images/ or in the folder itself",
    "sidecar": "images at any depth",
    "kohya": "folders named like 10_name",
    "imagefolder": "metadata.jsonl or metadata.csv, in the folder itself, in train/ or in its other folders",
    "board": ".json files below metadata/",
    "jsonl": "a .jsonl file",
    "kohya-json": 'a .json file of {"picture": {"caption": ..., "tags": ...}}',
    "parquet": "a .parquet file",
}

_TRAIN = "train"
_TRIED = 2000


def read_layout(root: Path, forced: LayoutName | None, asked: Asked) -> FolderContents:
    """What lies in `root`, in the layout `forced` or else in the one that it has.

    Of the ranks of a machine one lists the folders. Raises `Fault` DAT01 (no such folder), DAT02 and DAT03 (nothing of
    that kind in it), DEP01 (no pyarrow).
    """
    check_folder(root)
    with one_look(root, "listing", lambda: repr((asked.follow_links, list(asked.endings))).encode()) as look:
        seen = {} if look.found is None else from_column(look.found)
        listed = {folder: Listing.of_plain(plain) for folder, plain in seen.items()}
        tree = Tree(root, asked.follow_links, asked.masked, asked.endings, listed)
        contents = _read(tree, forced, asked)
        look.seen = lambda: as_column({folder: inside.to_plain() for folder, inside in tree.seen.items()})
    return contents


def _read(tree: Tree, forced: LayoutName | None, asked: Asked) -> FolderContents:
    root = tree.root
    contents = _READERS[forced](tree, asked) if forced else _recognised(tree, asked)
    if contents is None and forced:
        raise Fault(
            "DAT03",
            f"{root} does not have the layout {forced}",
            where="layout",
            why=f"looked for {_LOOKED_FOR[forced]}",
            fix="leave layout out, so that it is recognised",
        )
    if contents is None:
        raise no_images(root, tree.unread())
    if contents.layout == "flat" and not forced:
        _warn_of_unread(tree, contents)
    if tree.masks and not asked.masked:
        log.info("note: mask/ holds masks, which no loss looks at; data.params.train.params.mask=folder uses them")
    return replace(contents, unread=(*tree.unread(), *contents.unread))


def _recognised(tree: Tree, asked: Asked) -> FolderContents | None:
    """Caption files in a folder of their own go first, then descriptions that name pictures here, then the rest.

    Descriptions that name none are taken only where nothing else has a caption. Where filters or rules for tags ask
    for descriptions, these go before all.
    """
    described = (name for name in _DESCRIBING if _IS_THERE[name](tree))  # one by one, since looking lists folders
    if not asked.described and has_flat_captions(tree):
        if (name := next(described, None)) is not None:
            _log_passed_over(tree, name, "the pictures have caption files of their own")
        return read_flat(tree, asked)
    first = None
    for name in described:
        contents = _READERS[name](tree, asked)
        if contents and (asked.described or _names_pictures(tree.root, contents)):
            return contents
        first = first or contents
    plain = _plain(tree, asked)
    if first is None or (plain and not (plain.table.source.empty & plain.table.text.empty).all()):
        if first:
            _log_passed_over(tree, first.layout, "it names no picture that is here")
        return plain
    return first


def _log_passed_over(tree: Tree, name: LayoutName, why: str) -> None:
    what = _LOOKED_FOR[name].partition(",")[0]
    log.warning("%s: %s not read, since %s (layout: %s reads it)", tree.root, what, why, name)


def _names_pictures(root: Path, contents: FolderContents) -> bool:
    """Whether one of the pictures is there, of at most 2000 that are spread evenly."""
    sound = np.flatnonzero(np.isin(contents.table.problem, (SOUND, NO_WORDS)))
    paths = contents.table.path.at(sound[:: max(1, len(sound) // _TRIED)])
    return any((root / path).is_file() for path in paths if _can_be_asked_for(path))


def _can_be_asked_for(path: str) -> bool:
    return ("\0" not in path and path.isascii()) or path.encode("utf-8", "ignore").decode() == path


def _plain(tree: Tree, asked: Asked) -> FolderContents | None:
    """Pictures with a caption file each, or none."""
    if flat_folders(tree):
        return read_flat(tree, asked)
    if (is_kohya_name(tree.root.absolute().name) and tree.top.images) or _kohya_parent(tree) is not None:
        return _kohya(tree, asked)
    if any(inside.images for folder in tree.top.folders for _, inside in tree.walk(folder)):
        return read_sidecars(tree, asked)
    return read_flat(tree, asked)


def _kohya_parent(tree: Tree) -> str | None:
    """The folder ('' is the root) all of whose folders with pictures are named like `10_name`."""
    for parent in ("", *(name for name in CAPTION_FOLDER if name in tree.top.folders)):
        inside = tree[parent]
        holding = [name for name in inside.folders if tree[joined(parent, name)].images]
        if holding and not inside.images and all(map(is_kohya_name, holding)):
            return parent
    return None


def _kohya(tree: Tree, asked: Asked) -> FolderContents | None:
    return read_kohya(tree, asked, _kohya_parent(tree) or "")


def _imagefolder_files(tree: Tree) -> list[str]:
    """In the root, else in `train/`, else in each of its other folders that has one."""
    for folders in ([""], [_TRAIN], tree.top.folders):
        files = [_metadata_file(tree, folder) for folder in folders if not folder or folder in tree.top.folders]
        if any(files):
            return [file for file in files if file]
    return []


def _metadata_file(tree: Tree, folder: str) -> str | None:
    return next((joined(folder, name) for name in IMAGEFOLDER if name in tree[folder].names), None)


def _ending(tree: Tree, ending: str, *folders: str) -> list[str]:
    """The files of that ending in the first of `folders` that has any; of a hub's `data/`, those for training."""
    for folder in folders:
        if not folder or folder in tree.top.folders:
            names = sorted(name for name in tree[folder].names if name.lower().endswith(ending))
            training = [name for name in names if folder == "data" and name.startswith(_TRAIN)]
            if names:
                return [joined(folder, name) for name in training or names]
    return []


def _jsonl_files(tree: Tree) -> list[str]:
    return _ending(tree, ".jsonl", "", _TRAIN)


def _parquet_files(tree: Tree) -> list[str]:
    return _ending(tree, ".parquet", "", _TRAIN, "data")


def _described_by(
    files: Callable[[Tree], list[str]], layout: LayoutName
) -> Callable[[Tree, Asked], FolderContents | None]:
    def read(tree: Tree, asked: Asked) -> FolderContents | None:
        names = files(tree)
        if not names:
            return None
        few = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return read_described(tree.root, names, layout, few)

    return read


def _kohya_json(tree: Tree, asked: Asked) -> FolderContents | None:
    file = kohya_json_file(tree)
    return read_kohya_json(tree, file) if file else None


_DESCRIBING: tuple[LayoutName, ...] = ("board", "imagefolder", "jsonl", "kohya-json", "parquet")

_IS_THERE: dict[LayoutName, Callable[[Tree], bool]] = {
    "board": lambda tree: FOLDER in tree.top.folders and has_json(tree.root),
    "imagefolder": lambda tree: bool(_imagefolder_files(tree)),
    "jsonl": lambda tree: bool(_jsonl_files(tree)),
    "kohya-json": lambda tree: kohya_json_file(tree) is not None,
    "parquet": lambda tree: bool(_parquet_files(tree)),
}

_READERS: dict[LayoutName, Callable[[Tree, Asked], FolderContents | None]] = {
    "flat": read_flat,
    "sidecar": read_sidecars,
    "kohya": _kohya,
    "imagefolder": _described_by(_imagefolder_files, "imagefolder"),
    "board": lambda tree, asked: read_board(tree),
    "jsonl": _described_by(_jsonl_files, "jsonl"),
    "kohya-json": _kohya_json,
    "parquet": _described_by(_parquet_files, "parquet"),
}


def _warn_of_unread(tree: Tree, contents: FolderContents) -> None:
    """Other places for pictures in the same folder, which a flat set leaves out."""
    read = contents.table.path[0].rpartition("/")[0]
    counts = {name: len(tree[name].images) for name in CAPTION_FOLDER if name in tree.top.folders}
    for folder, count in {**counts, "": len(tree.top.images)}.items():
        if count and folder != read:
            log.warning(
                "%d images in %s are not read, since %s holds images too (layout: sidecar reads all)",
                count,
                tree.root / folder,
                tree.root / read,
            )
