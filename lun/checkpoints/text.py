"""Small text files that are whole or absent."""

import os
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Replace a text file as a whole, so that a reader or a crash never meets half of it."""
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
