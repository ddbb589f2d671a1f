"""The hash of a file."""

import hashlib
from pathlib import Path

from ldm.plain import require_ordinary


def sha256(path: Path) -> str:
    """Of a file's bytes, as hexadecimal digits. Raises OSError, and ValueError for what is no ordinary file."""
    require_ordinary(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
