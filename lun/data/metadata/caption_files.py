"""Caption files: text in, one line out."""

import logging
import os

from ldm.errors import Fault
from lun.data.index.dir_handle import open_file

log = logging.getLogger(__name__)


def one_line(text: str) -> str:
    """`text` without line breaks, doubled spaces and surrounding space."""
    return " ".join(text.split())


class CaptionReader:
    """Reads caption files; warns once if one of them is not UTF-8. `several`: each line is a caption of its own."""

    def __init__(self, several: bool = False) -> None:
        self.several = several
        self.logged = False

    def __call__(self, path: str | os.PathLike[str]) -> str:
        """The caption in file `path` on one line (`several`: one to a line); an empty file is an empty caption.

        UTF-8 with or without a byte order mark, UTF-16 with one, else Latin-1. Raises `Fault` DAT04 if the file cannot
        be read.
        """
        try:
            with open_file(path) as file:
                data = file.read()
        except OSError as error:
            raise Fault("DAT04", f"cannot read caption {os.fspath(path)}", why=error.strerror or str(error)) from error
        text = self._decoded(data, path)
        return "\n".join(filter(None, map(one_line, text.splitlines()))) if self.several else one_line(text)

    def _decoded(self, data: bytes, path: str | os.PathLike[str]) -> str:
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            return data.decode("utf-16", errors="replace")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            if not self.logged:
                log.warning("caption %s is not UTF-8; it and others like it are read as Latin-1", os.fspath(path))
                self.logged = True
            return data.decode("latin-1")
