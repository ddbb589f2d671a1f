"""Where caches lie: never among the user's pictures."""

import os
from pathlib import Path


def cache_root() -> Path:
    """`LUN_CACHE`, else `lun` in the user's cache directory."""
    if given := os.environ.get("LUN_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "lun"
