"""The error of a person whose folder holds no data set: what lies there instead, and which folder may be meant."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ldm.errors import Fault
from ldm.shell import quoted
from lun.data.index.listing import CAPTION_FOLDER, EXTENSIONS, LEAVES, Listing, composed, listing, stem
from lun.data.index.missing_folder import contents
from lun.data.layouts.folder_contents import FolderContents
from lun.data.metadata.params import MetadataParams
from lun.data.metadata.picture_table import Table
from lun.data.metadata.waterfall import Waterfall

log = logging.getLogger(__name__)

FOLLOW_LINKS = "data.params.train.params.follow_links=true reads what links out of the folder lead to"

_PROBED = 50


def no_images(root: Path, unread: Sequence[tuple[str, str]] = ()) -> Fault:
    """`Fault` DAT02 if nothing lies in `root` or its folders, else DAT03 with what was found there.

    unread  (path, reason) of what was not looked into
    """
    if unread:
        path, reason = unread[0]
        return Fault(
            "DAT03",
            f"no images in {root} that can be read",
            where="--data_root",
            why=f"{len(unread)} x not looked into, the first: {path}: {reason}",
            fix=FOLLOW_LINKS if reason == LEAVES else "--data_root DIR, a folder with images",
        )
    top = listing(root)
    below = {name: _listed(root / name) for name in top.folders[:_PROBED]}
    if not (top.others or top.captions) and all(inside.is_empty for inside in below.values()):
        return Fault(
            "DAT02",
            "0 images, so there is nothing to train on",
            where=str(root),
            why="the folder is empty" if top.is_empty else f"it holds only empty folders: {contents(top)}",
            fix="--data_root DIR, a folder with images",
        )
    return Fault(
        "DAT03",
        f"no images in {root} (looked for {' '.join(EXTENSIONS)} at any depth)",
        where="--data_root",
        why=f"found instead: {contents(top)}",
        fix="--data_root DIR, a folder with images",
    )


def no_captions(root: Path, images: int, contents: FolderContents, first: str) -> Fault:
    """`Fault` DAT04 for a data set of `images` images, none of which has a caption; `first` is one of their names."""
    if contents.paths_from_metadata:
        why, put = f"no text, caption or prompt in {contents.words}", "give every entry a `text`"
    else:
        folder, _, _ = contents.captions.rpartition("/")
        image_folder, _, name = first.rpartition("/")
        text = f"{stem(name)}.txt"
        beside = not folder or folder == image_folder
        put = f"put {text} next to {name}" if beside else f"put {folder}/{text} for {first}"
        place = "next to the images" if beside else f"in {folder}/ that is named like an image of {image_folder}/"
        why = f"no .txt or .caption {place}"
        sibling = CAPTION_FOLDER.get(root.name)
        if elsewhere := _caption_folder(root, first):
            wanted = CAPTION_FOLDER.get(image_folder)
            put = f"mv {quoted(root / elsewhere)} {quoted(root / wanted)}" if wanted else f"{put}: mv {elsewhere}/* ."
            why += f", but {elsewhere}/ has {text}"
        elif not image_folder and sibling and (root.parent / sibling).is_dir():
            put = f"--data_root {quoted(root.parent)} (which holds {root.name}/ and {sibling}/)"
    return Fault(
        "DAT04",
        f"none of the {images} images has a caption",
        where=str(root),
        why=why,
        fix=f"{put}, or use one text for all: "
        'data.params.train.params.default_caption="photo of sks cat"\n'
        "or train without text: data.params.train.params.allow_empty_captions=true",
    )


def no_further_captions(root: Path | str) -> Fault:
    """DAT04: captions for further text encoders are asked for, and no picture has any."""
    return Fault(
        "DAT04",
        f"no picture in {root} has a caption for a second or third text encoder",
        where="data.params.train.params.caption_per_encoder",
        why="no description has a caption_2 or caption_3, and no NAME.txt2 or NAME.txt3 lies beside a caption",
        fix="data.params.train.params.caption_per_encoder=false gives every text encoder the same",
    )


def _caption_folder(root: Path, image: str) -> str | None:
    """The folder in `root` that holds a caption for `image` under a name that is not looked into, such as `texts`."""
    name = composed(stem(image.rpartition("/")[2]))
    folders = listing(root).folders[:_PROBED]
    return next((folder for folder in folders if name in _listed(root / folder).captions), None)


def log_left_out(total: int, count: int, names: list[str], contents: FolderContents) -> None:
    """Say that `count` of `total` images have no caption, `names` being the first of them; a warning above 1 %."""
    share = 100 * count / total
    few = ", ".join(names[:3]) + (", ..." if count > 3 else "")
    looked_for = contents.captions.replace("{stem}", stem(names[0].rpartition("/")[2]))
    fault = Fault(
        "DAT04",
        f"{count} of {total} images ({share:.2g} %) have no caption and are left out",
        why=few + (f"; looked for {looked_for}" if looked_for else ""),
        fix='one text for them: data.params.train.params.default_caption="photo of sks cat"',
    )
    log.log(logging.WARNING if share > 1 else logging.INFO, fault.render("warning" if share > 1 else "note"))


def none_left(root: Path, contents: FolderContents, waterfall: Waterfall, table: Table) -> Fault:
    """`Fault` DAT02 for filters that leave nothing: the whole waterfall, and how to loosen the worst of them."""
    return Fault(
        "DAT02",
        f"0 of {waterfall.total:,} images are usable, so there is nothing to train on",
        where=f"{root} (layout: {contents.words})",
        why="\n".join(waterfall.lines()),
        fix=f"{_loosened(waterfall, table)}\nsee every reject: python -m lun.inspect {quoted(root)} --base YAML ...",
    )


def _loosened(waterfall: Waterfall, table: Table) -> str:
    worst = waterfall.worst
    if worst is None:
        return "the folder describes no image"
    setting = f"data.params.train.params.metadata_params.{worst.name}"
    if worst.name in ("min_score", "abs_min_score"):
        known = table.score[~np.isnan(table.score)]
        return f"lower the filter that removed the most, e.g. {setting}={np.median(known):g} (half of them reach it)"
    if worst.name in MetadataParams.__annotations__:
        return f"loosen the filter that removed the most, or switch it off: {setting}=null"
    if worst.name in _ASKED_BY:
        setting = "data.params.train.params.metadata_params."
        return "leave out what asks for it: " + " ".join(f"{setting}{name}=null" for name in _ASKED_BY[worst.name])
    if worst.name == "leaves":
        return FOLLOW_LINKS
    if worst.name == "embedded":
        return "write the pictures out as files beside their descriptions"
    if worst.name == "missing":
        return f"paths in descriptions count from the folder itself: is there {worst.first}?"
    return "mend what removed the most"


_ASKED_BY = {
    "no_score": ("abs_min_score", "min_score"),
    "no_rating": ("ratings",),
    "no_date": ("min_date", "max_date"),
}
"""Step that removed what has no value -> the filters that ask for one."""


class Unusable(Fault):
    """A `Fault` of a folder that was read in full and in which nothing is left; `selection` has each picture."""

    def __init__(self, fault: Fault, selection: Any) -> None:
        super().__init__(fault.id, fault.what, where=fault.where, why=fault.why, fix=fault.fix)
        self.selection = selection


def _listed(folder: Path) -> Listing:
    try:
        return listing(folder)
    except OSError:  # a folder that cannot be read is no better place to look
        return Listing()
