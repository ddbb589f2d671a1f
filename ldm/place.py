"""Where caches lie: never among the user's pictures."""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ldm.operating_system import is_this_users


def cache_root() -> Path:
    """`LUN_CACHE`, else `lun` in the user's cache directory; for this user alone where it has to be made."""
    given = os.environ.get("LUN_CACHE")
    root = Path(given or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "lun").expanduser()
    with suppress(OSError):  # it is there, or whoever writes into it will say why that cannot be
        root.mkdir(mode=0o700, parents=True)
    return root


def private_folder(path: Path) -> bool:
    """Make `path` (mode 0700) where it is not there; whether nobody but this user can put anything into it.

    A folder of another user, one that others may write to, and a link are not: what lies there may be anybody's.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=True)
    return is_own(os.lstat(path), stat.S_ISDIR)


def is_own(status: os.stat_result, kind: Callable[[int], bool]) -> bool:
    """Whether something of this kind (`stat.S_ISDIR`, `stat.S_ISREG`) is this user's and no other may write to it."""
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return kind(status.st_mode) and is_this_users(status) and not others
