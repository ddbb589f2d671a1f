"""The page that describes weights, in Markdown beside them; what a person has changed in it is theirs."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ldm.files.replacing import replacing

PAGE, PICTURE = "README.md", "samples.png"
"""Their names in a folder; beside a file they have its name."""
PICTURE_HERE = "PICTURE-BESIDE-THIS-PAGE"
"""What stands in a card's text for the name of the picture beside it."""
FILL_IN = "FILL IN"
"""What stands in a card where only a person can say what is true."""
_NO_LICENCE = re.compile(rf"^# *license: *{FILL_IN}", re.MULTILINE)
_MARK = re.compile(r"\n<!-- as written: ([0-9a-f]{64}) ([0-9a-f]{64}|-) -->\n?\Z")


@dataclass(frozen=True)
class ModelCard:
    """A page in Markdown, and a picture that the weights drew (the bytes of a PNG)."""

    text: str
    picture: bytes | None = None

    def beside(self, file: Path) -> Path:
        """Write it for a single file, as its name with .md and .png; returns the page. Raises OSError."""
        page, picture = file.with_suffix(".md"), file.with_suffix(".png")
        self._write(page, picture, page, picture)
        return page

    def within(self, folder: Path, former: Path) -> None:
        """Write it into a folder that is to take the place of `former`. Raises OSError."""
        self._write(folder / PAGE, folder / PICTURE, former / PAGE, former / PICTURE)

    def _write(self, page: Path, picture: Path, old_page: Path, old_picture: Path) -> None:
        """What a person changed is kept: a page that is not as it was written, a picture that is not its own."""
        was_page, was_picture = _read(old_page), _read(old_picture)
        mark = _mark_of(was_page)
        new = self._rendered(picture.name)
        kept_page = was_page is not None and (mark is None or mark[0] != _digest(_unmarked(was_page)))
        kept_picture = was_picture is not None and (mark is None or mark[1] != _digest(was_picture))
        _put(page, was_page if kept_page else new)
        _put(picture, was_picture if kept_picture else self.picture)

    def _rendered(self, picture: str) -> bytes:
        text = self.text.replace(PICTURE_HERE, quote(picture)).encode("utf-8")
        drawn = "-" if self.picture is None else _digest(self.picture)
        return text + f"\n<!-- as written: {_digest(text)} {drawn} -->\n".encode()


def says_no_licence(page: Path) -> bool:
    """Whether a card's licence still waits to be filled in. Raises OSError."""
    return _NO_LICENCE.search((_read(page) or b"").decode("utf-8", "replace")) is not None


def _put(path: Path, content: bytes | None) -> None:
    if content is not None and _read(path) != content:
        with replacing(path) as file:
            file.write(content)


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _mark_of(page: bytes | None) -> tuple[str, str] | None:
    found = _MARK.search(page.decode("utf-8", "replace")) if page is not None else None
    return (found[1], found[2]) if found else None


def _unmarked(page: bytes) -> bytes:
    return _MARK.sub("", page.decode("utf-8", "replace")).encode("utf-8")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
