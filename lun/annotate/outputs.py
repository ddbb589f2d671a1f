"""Where annotations go: caption files, masks, or one description of all. None of them replaces what is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from ldm.errors import Fault
from ldm.files.replacing import flush_directory, flush_file, is_leftover, unfinished
from lun.annotate.annotated_folder import AnnotatedFolder
from lun.data.images.decode import header_size
from lun.data.metadata.caption_files import one_line


class Output(Protocol):
    """What was annotated so far, and what comes to it."""

    keyed: bool
    """whether it asks for the content's key of a picture"""

    def has(self, index: int, key: str) -> bool:
        """whether a picture is annotated already; `key` is that of its content, '' where the output is not keyed"""

    def add(self, rows: Sequence[tuple[int, str, Mapping[str, Any]]]) -> None:
        """(index, key, columns) of pictures that it has not got; a kill in between leaves whole rows alone"""

    def finish(self) -> list[str]:
        """called once all are annotated; lines to log"""


class TextFiles:
    """`NAME.txt` for pictures without a caption; none for what has no words, which would train as an empty caption."""

    keyed = False

    def __init__(self, folder: AnnotatedFolder) -> None:
        self.folder = folder
        self.written = self.wordless = 0

    def has(self, index: int, key: str) -> bool:
        return self.folder.has_text_file(index) or self.folder.text_file(index).exists()

    def add(self, rows: Sequence[tuple[int, str, Mapping[str, Any]]]) -> None:
        for index, _, columns in rows:
            words = words_of(columns)
            if not words:
                self.wordless += 1
                continue
            self.written += write_new(self.folder.text_file(index), f"{words}\n".encode())

    def finish(self) -> list[str]:
        _sweep({self.folder.text_file(index).parent for index in range(len(self.folder))})
        commas = "   (of tags, rules speak with captions: {split_tags: ','} in the params of the set)"
        none = [f"warning[DAT04]: {self.wordless:,} pictures got no words, and no file"] if self.wordless else []
        return [f"wrote    {self.written:,} caption files{commas if self.written else ''}", *none]


class MaskFiles:
    """`mask/NAME.png` for pictures without a mask, in the picture's size."""

    keyed = False

    def __init__(self, folder: AnnotatedFolder) -> None:
        self.folder = folder
        self.written = 0

    def has(self, index: int, key: str) -> bool:
        return self.folder.has_mask(index)

    def add(self, rows: Sequence[tuple[int, str, Mapping[str, Any]]]) -> None:
        for index, _, columns in rows:
            size = header_size(self.folder.path(index))
            mask = columns["mask"].convert("L").resize(size, Image.Resampling.BILINEAR)
            content = BytesIO()
            mask.save(content, "PNG")
            self.written += write_new(self.folder.mask_file(index), content.getvalue())

    def finish(self) -> list[str]:
        _sweep({self.folder.mask_file(index).parent for index in range(len(self.folder))})
        return [f"wrote    {self.written:,} masks", "train    mask: folder in the params of the set"]


def words_of(columns: Mapping[str, Any]) -> str:
    """The caption, else the tags with commas."""
    return one_line(columns["caption"]) if "caption" in columns else ", ".join(columns["tags"])


def write_new(path: Path, content: bytes) -> bool:
    """Write a file, whole or not at all; False where one of this name is there, which stays as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished(path) as temporary:
        with temporary.open("xb") as file:
            file.write(content)
            flush_file(file)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        flush_directory(path.parent)
    return True


def _sweep(folders: Iterable[Path]) -> None:
    """Remove what processes that were killed have left of unfinished files."""
    for folder in filter(Path.is_dir, folders):
        for path in filter(is_leftover, folder.iterdir()):
            path.unlink(missing_ok=True)


def checked_rows(rows: Any, count: int, columns: Sequence[str], name: str) -> list[dict[str, Any]]:
    """What an annotator gave, of the kinds that are read. Raises `Fault` DAT08 for anything else."""
    if not isinstance(rows, Sequence) or len(rows) != count:
        given = f"{len(rows)} rows" if isinstance(rows, Sequence) else f"a {type(rows).__name__}"
        raise _senseless(name, f"it gave {given} for {count} pictures")
    for row in rows:
        if not isinstance(row, Mapping) or set(row) != set(columns):
            got = sorted(row) if isinstance(row, Mapping) else type(row).__name__
            raise _senseless(name, f"it gave {got}, and its columns are {sorted(columns)}")
        for column, value in row.items():
            if column in _KINDS and not _KINDS[column][1](value):
                raise _senseless(name, f"{column} is {_KINDS[column][0]}, not {value!r:.80}")
    return [dict(row) for row in rows]


def _senseless(name: str, why: str) -> Fault:
    return Fault("DAT08", f"what {name} says of pictures makes no sense", why=why, fix="lun/annotate/annotator.py")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "caption": ("text", lambda value: isinstance(value, str)),
    "tags": ("a list of text", lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value)),
    "score": ("a finite number", _is_number),
    "mask": ("a picture of Pillow's", lambda value: isinstance(value, Image.Image)),
}
