"""Pictures with a caption file each: flat folders, files side by side at any depth, folders of the kohya kind."""

import dataclasses
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lun.data.index.listing import CAPTION_FOLDER, Listing, Tree, composed, joined, stem
from lun.data.index.sizes import file_states
from lun.data.index.store import Stamps, indexed
from lun.data.layouts.folder_contents import Asked, FolderContents, LayoutName, TextReader
from lun.data.metadata.columns import Strings
from lun.data.metadata.picture_table import Table
from lun.data.metadata.table_builder import Rows

ORPHAN = "caption without a picture"

_KOHYA = re.compile(r"(\d{1,3})_(.+)")


@dataclass
class Pairs:
    """Pictures and captions found so far below `root`."""

    root: Path
    asked: Asked
    rows: Rows = field(default_factory=Rows)
    skipped: int = 0
    repeats: Counter[int] = field(default_factory=Counter)
    captions: dict[str, bool] = field(default_factory=dict)
    """path of each text file -> whether a picture has it"""

    def add(self, folder: str, inside: Listing, captions: dict[str, str], repeats: int = 1, text: str = "") -> None:
        """The pictures of one folder; `captions` gives the path of a text file by stem, `text` serves without one."""
        self.skipped += inside.skipped
        self.repeats[repeats] += len(inside.images)
        for caption in captions.values():
            self.captions.setdefault(caption, False)
        for image in inside.images:
            source = captions.get(composed(stem(image)), "")
            if source:
                self.captions[source] = True
            numbers = {"repeats": repeats} if repeats != 1 else {}
            self.rows.add(joined(folder, image), source, "" if source else text, numbers=numbers)

    def orphans(self) -> tuple[tuple[str, str], ...]:
        """(path, reason) of the text files that no picture has."""
        return tuple((path, ORPHAN) for path, is_used in self.captions.items() if not is_used)

    def table(self) -> Table:
        """What was found; with the words of caption files where they are asked for."""
        table = Table.of(self.rows.packed())
        return _with_texts(self.root, table, self.asked.read_text) if self.asked.read_text else table


def _with_texts(root: Path, table: Table, read: TextReader) -> Table:
    """The table with the words of its caption files, of which only those that changed are opened."""
    rows = np.flatnonzero(~table.source.empty)
    names = table.source.at(rows)

    def parse(wanted: NDArray[np.int64]) -> Table:
        built = Rows()
        for row in wanted.tolist():
            built.add("", names[row], read(root / names[row]))
        return Table.of(built.packed())

    read_before, _ = indexed(root, "texts", Stamps.of(names, file_states(root, names)), parse)
    texts = list(table.text)
    for row, text in zip(rows.tolist(), read_before.text, strict=True):
        texts[row] = text
    return dataclasses.replace(table, text=Strings.of(texts))


def in_folder(folder: str, inside: Listing) -> dict[str, str]:
    """stem -> path of the text files of one folder"""
    return {name: joined(folder, file) for name, file in inside.captions.items()}


def flat_folders(tree: Tree) -> tuple[str, str] | None:
    """(folder of the pictures, folder of their captions) of a flat set; None where no folder for images holds any."""
    for images, captions in CAPTION_FOLDER.items():
        if images in tree.top.folders and tree[images].images:
            return images, captions if captions in tree.top.folders else images
    return None


def has_flat_captions(tree: Tree) -> bool:
    """Whether half of the pictures of a flat set or more have a caption file."""
    folders = flat_folders(tree)
    if folders is None:
        return False
    images = tree[folders[0]].images
    return 2 * sum(composed(stem(image)) in tree[folders[1]].captions for image in images) >= len(images)


def read_flat(tree: Tree, asked: Asked) -> FolderContents | None:
    """`img/` + `txt/`, `images/` + `captions/`, or all in one folder: the first of them that holds a picture."""
    images, captions = flat_folders(tree) or ("", "")
    inside = tree[images]
    if not inside.images:
        return None
    pairs = Pairs(tree.root, asked)
    pairs.add(images, inside, in_folder(captions, tree[captions]))
    places = f"{images}/ + {captions}/" if images != captions else "captions beside images"
    words = f"flat ({places}), {len(inside.images):,} images"
    return FolderContents(
        "flat", words, pairs.table(), joined(captions, "{stem}.txt"), pairs.skipped, unread=pairs.orphans()
    )


def read_sidecars(tree: Tree, asked: Asked, below: str = "") -> FolderContents | None:
    """Pictures at any depth with their text beside them, or in the folder for captions beside theirs."""
    return _read_tree(tree, below, asked, lambda folder: (1, ""), "sidecar", "captions beside images")


def read_kohya(tree: Tree, asked: Asked, below: str = "") -> FolderContents | None:
    """Folders `10_name`: the number is how often their pictures repeat, the name the caption of those without one."""
    return _read_tree(tree, below, asked, lambda folder: kohya_folder(tree.root, folder), "kohya", "kohya folders")


def _read_tree(
    tree: Tree, below: str, asked: Asked, of_folder: Callable[[str], tuple[int, str]], layout: LayoutName, words: str
) -> FolderContents | None:
    pairs = Pairs(tree.root, asked)
    folders = dict(tree.walk(below))
    holding = {folder: inside for folder, inside in folders.items() if inside.images}
    for folder, inside in holding.items():
        parent, _, name = folder.rpartition("/")
        texts = in_folder(folder, inside)
        sibling = joined(parent, CAPTION_FOLDER.get(name, name))
        if sibling != folder and sibling in folders:
            texts = in_folder(sibling, folders[sibling]) | texts
        pairs.add(folder, inside, texts, *of_folder(folder))
    if not holding:
        return None
    summary = f"{words}, {sum(pairs.repeats.values()):,} images in {len(holding):,} folder{'s' * (len(holding) != 1)}"
    if layout == "kohya":
        summary += f", repeats {' '.join(map(str, sorted(pairs.repeats)))}"
    return FolderContents(layout, summary, pairs.table(), "{stem}.txt beside it", pairs.skipped, unread=pairs.orphans())


def kohya_folder(root: Path, folder: str) -> tuple[int, str]:
    """(repeats, class token) by the nearest folder on the way up to the root that is named `10_name`; (1, '')."""
    for name in [*reversed(folder.split("/")), root.absolute().name]:
        if match := _KOHYA.fullmatch(name):
            return max(1, int(match[1])), match[2].strip()
    return 1, ""


def is_kohya_name(name: str) -> bool:
    """Whether a folder's name says how often its pictures repeat: one to three digits, `_`, a name."""
    return _KOHYA.fullmatch(name) is not None
