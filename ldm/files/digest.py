"""The hash of a file."""

import hashlib
from pathlib import Path


def sha256(path: Path) -> str:
    """Of a file's bytes, as hexadecimal digits. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
