"""What a layout's reader returns, and what it may be asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lun.data.index.listing import CAPTION_EXTENSIONS
from lun.data.metadata.picture_table import Table

LayoutName = Literal["flat", "sidecar", "kohya", "imagefolder", "board", "jsonl", "kohya-json", "parquet"]

TextReader = Callable[[Path], str]


@dataclass(frozen=True)
class FolderContents:
    """A data set as it lies on disk, before any filter."""

    layout: LayoutName
    words: str
    """the layout and how much of it there is, for a person: `board JSON, 48,211 files`"""
    table: Table
    captions: str = ""
    """where captions were looked for, `{stem}` standing for a picture's name"""
    skipped: int = 0
    """hidden files and those of the system"""
    reused: bool = False
    """whether all of it came from the stored index"""
    paths_from_metadata: bool = False
    """the paths are what some file says, not what was seen on disk"""
    unread: tuple[tuple[str, str], ...] = ()
    """(path, reason) of files beside the pictures that have no use, such as captions without a picture"""


@dataclass(frozen=True)
class Asked:
    """`read_text`: how to read caption files at once, since filters ask for their words; None: leave them closed."""

    read_text: TextReader | None = None
    described: bool = False
    """filters or rules for tags were given, so that descriptions are preferred to plain captions"""
    follow_links: bool = False
    """links may lead out of the folder"""
    masked: bool = False
    """masks are asked for, so that `mask/` holds no pictures"""
    endings: Sequence[str] = CAPTION_EXTENSIONS
    """of caption files"""
