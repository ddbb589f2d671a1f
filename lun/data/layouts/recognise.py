"""Which layout a folder has, told from names, and its contents read accordingly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from ldm.errors import Fault
from lun.data.layouts.board import FOLDER, has_json, read_board
from lun.data.layouts.found import Asked, Found, LayoutName
from lun.data.layouts.lines import IMAGEFOLDER, read_described
from lun.data.layouts.pairs import is_kohya_name, read_flat, read_kohya, read_sidecars
from lun.data.listing import CAPTION_FOLDER, Listing, listing, walk
from lun.data.nothing_found import check_folder, no_images

log = logging.getLogger(__name__)

_LOOKED_FOR: dict[LayoutName, str] = {
    "flat": "images in img/, in images/ or in the folder itself",
    "sidecar": "images at any depth",
    "kohya": "folders named like 10_name",
    "imagefolder": "metadata.jsonl or metadata.csv",
    "board": ".json files below metadata/",
    "jsonl": "a .jsonl file",
    "parquet": "a .parquet file",
}


def read_layout(root: Path, forced: LayoutName | None, asked: Asked) -> Found:
    """What lies in `root`, in the layout `forced` or else in the one that it has.

    Raises `Fault` DAT01 (no such folder), DAT02 and DAT03 (nothing of that kind in it), DEP01 (no pyarrow).
    """
    check_folder(root)
    top = listing(root)
    if forced:
        found = _READERS[forced](root, top, asked)
        if found is None:
            raise Fault(
                "DAT03",
                f"{root} does not have the layout {forced}",
                where="layout",
                why=f"looked for {_LOOKED_FOR[forced]}",
                fix="leave layout out, so that it is recognised",
            )
        return found
    name = recognised(root, top, asked.described)
    found = _READERS[name](root, top, asked) if name else None
    if found is None:
        raise no_images(root)
    if name == "flat":
        _tell_unread(root, top, found)
    return found


def recognised(root: Path, top: Listing, described: bool) -> LayoutName | None:
    """The layout that the names in `root` speak for; `described`: descriptions go before plain captions."""
    if described and FOLDER in top.folders and has_json(root):
        return "board"
    if _has_pairs(root, top):
        return "flat"
    if FOLDER in top.folders and has_json(root):
        return "board"
    if any(name in top.names for name in IMAGEFOLDER):
        return "imagefolder"
    if _ending(top, ".jsonl"):
        return "jsonl"
    if _ending(top, ".parquet"):
        return "parquet"
    if (is_kohya_name(root.absolute().name) and top.images) or _kohya_parent(root, top) is not None:
        return "kohya"
    deeper = any(inside.images for folder in top.folders for _, inside in walk(root, folder))
    if not deeper:
        return "flat" if top.images else None
    return "sidecar"


def _has_pairs(root: Path, top: Listing) -> bool:
    return any(bool(listing(root / name).images) for name in CAPTION_FOLDER if name in top.folders)


def _ending(top: Listing, ending: str) -> list[str]:
    return sorted(name for name in top.names if name.lower().endswith(ending))


def _kohya_parent(root: Path, top: Listing) -> str | None:
    """The folder ('' is the root) all of whose folders with pictures are named like `10_name`."""
    for parent in ("", *(name for name in CAPTION_FOLDER if name in top.folders)):
        inside = listing(root / parent)
        holding = [name for name in inside.folders if listing(root / parent / name).images]
        if holding and not inside.images and all(map(is_kohya_name, holding)):
            return parent
    return None


def _kohya(root: Path, top: Listing, asked: Asked) -> Found | None:
    return read_kohya(root, asked, _kohya_parent(root, top) or "")


def _imagefolder(root: Path, top: Listing, asked: Asked) -> Found | None:
    files = [name for name in IMAGEFOLDER if name in top.names][:1]
    return read_described(root, files, "imagefolder", files[0]) if files else None


def _jsonl(root: Path, top: Listing, asked: Asked) -> Found | None:
    files = _ending(top, ".jsonl")
    return read_described(root, files, "jsonl", ", ".join(files)) if files else None


def _parquet(root: Path, top: Listing, asked: Asked) -> Found | None:
    files = _ending(top, ".parquet")
    return (
        read_described(root, files, "parquet", f"{len(files)} parquet file{'s' * (len(files) > 1)}") if files else None
    )


def _board(root: Path, top: Listing, asked: Asked) -> Found | None:
    return read_board(root) if FOLDER in top.folders else None


_READERS: dict[LayoutName, Callable[[Path, Listing, Asked], Found | None]] = {
    "flat": read_flat,
    "sidecar": lambda root, top, asked: read_sidecars(root, asked),
    "kohya": _kohya,
    "imagefolder": _imagefolder,
    "board": _board,
    "jsonl": _jsonl,
    "parquet": _parquet,
}


def _tell_unread(root: Path, top: Listing, found: Found) -> None:
    """Other places for pictures in the same folder, which a flat set leaves out."""
    read = found.table.path[0].rpartition("/")[0]
    counts = {name: len(listing(root / name).images) for name in CAPTION_FOLDER if name in top.folders}
    for folder, count in {**counts, "": len(top.images)}.items():
        if count and folder != read:
            log.warning(
                "%d images in %s are not read, since %s holds images too (layout: sidecar reads all)",
                count,
                root / folder,
                root / read,
            )
