"""The user's own modules: `./lun/local` where the program is started, as it was in 2022, and what lies beside it."""

import sys
from pathlib import Path

import lun


def admit_user_code(directory: Path | None = None) -> None:
    """Make `lun.local.*` of `directory` (the working directory by default) importable, and modules that lie in it.

    Both come last, so that nothing of the program's own is hidden by a file of the same name.
    """
    home = directory or Path.cwd()
    drawer = str(home / "lun")
    if (home / "lun" / "local").is_dir() and drawer not in lun.__path__:
        lun.__path__.append(drawer)
    if str(home) not in sys.path:
        sys.path.append(str(home))
