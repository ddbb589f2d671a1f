"""Flat data sets: which images a folder holds and which text file describes each."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from ldm.errors import Fault
from lun.data.listing import CAPTION_FOLDER, Listing, listing, stem
from lun.data.nothing_found import check_folder, no_captions, no_images

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Index:
    """The usable examples of a data set, sorted by path."""

    root: Path
    images: list[str]
    """paths relative to `root`, with `/`"""
    captions: list[str | None]
    """the same for the text files; None: there is none, and a default serves"""

    def __len__(self) -> int:
        return len(self.images)

    def only(self, kept: list[int]) -> "Index":
        """The examples at the positions `kept`, in that order."""
        return Index(self.root, [self.images[i] for i in kept], [self.captions[i] for i in kept])


@dataclass(frozen=True)
class _Layout:
    """Where images and captions lie, relative to the root ('' is the root itself), and what was found there."""

    image_folder: str
    images: list[str]
    caption_folder: str
    captions: dict[str, str]


def read_flat(data_root: str, captions_required: bool = True) -> Index:
    """Index the folder `data_root` by names alone; no image and no caption is opened.

    With `captions_required` an image without caption is left out, counted and told; otherwise it stays, with None.
    Raises `Fault` DAT01 (no such folder), DAT03 (no images in it), DAT02 (nothing in it), DAT04 (no captions).
    """
    root = Path(data_root).expanduser()
    check_folder(root)
    layouts = _layouts(root)
    if not layouts:
        raise no_images(root)
    layout = layouts[0]
    for other in layouts[1:]:
        log.warning(
            "%d images in %s are not read, since %s holds images too",
            len(other.images),
            root / other.image_folder,
            root / layout.image_folder,
        )
    index = _pair(root, layout, captions_required)
    log.info(
        "data %s: %d images in %s/, captions in %s/",
        root,
        len(index),
        layout.image_folder or ".",
        layout.caption_folder or ".",
    )
    return index


def _layouts(root: Path) -> list[_Layout]:
    """Every layout in `root` that holds an image, the first of which counts."""
    top = listing(root)
    below = {images: captions for images, captions in CAPTION_FOLDER.items() if images in top.folders}
    found = [_below(root, top, images, captions) for images, captions in below.items()]
    found.append(_Layout("", top.images, "", top.captions))
    return [layout for layout in found if layout.images]


def _below(root: Path, top: Listing, images: str, captions: str) -> _Layout:
    inside = listing(root / images)
    if captions in top.folders:
        return _Layout(images, inside.images, captions, listing(root / captions).captions)
    return _Layout(images, inside.images, images, inside.captions)


def _pair(root: Path, layout: _Layout, captions_required: bool) -> Index:
    names = [layout.captions.get(stem(image)) for image in layout.images]
    without = [image for image, name in zip(layout.images, names, strict=True) if name is None]
    if captions_required and without:
        if len(without) == len(names):
            raise no_captions(root, len(names), layout.caption_folder, layout.image_folder, without[0])
        _tell_left_out(len(names), without, layout)
    pairs = [(image, name) for image, name in zip(layout.images, names, strict=True) if name or not captions_required]
    return Index(
        root,
        [_joined(layout.image_folder, image) for image, _ in pairs],
        [name and _joined(layout.caption_folder, name) for _, name in pairs],
    )


def _tell_left_out(total: int, without: list[str], layout: _Layout) -> None:
    share = 100 * len(without) / total
    few = ", ".join(_joined(layout.image_folder, name) for name in without[:3]) + (", ..." if len(without) > 3 else "")
    looked_for = _joined(layout.caption_folder, f"{stem(without[0])}.txt")
    told = Fault(
        "DAT04",
        f"{len(without)} of {total} images ({share:.2g} %) have no caption and are left out",
        why=f"{few}; looked for {looked_for}",
        fix='one text for them: data.params.train.params.default_caption="photo of sks cat"',
    )
    log.log(logging.WARNING if share > 1 else logging.INFO, told.render("warning" if share > 1 else "note"))


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def file_size(root: Path, path: str) -> int:
    """Bytes of the image at `path` below `root`. Raises `Fault` DAT06 if it cannot be looked at."""
    try:
        return os.stat(root / path).st_size
    except OSError as error:
        raise Fault("DAT06", f"cannot read image {root / path}", why=error.strerror or str(error)) from error
