"""What the system says when it cannot write, as a fault that a person can put right."""

import errno
import os

from ldm.errors import Fault
from lun.run_dir.directory import VARIABLE

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
BROKEN = (errno.EIO,)


def disk_fault(error: OSError) -> Fault | None:
    """DSK01 for an error of the disk itself, CLI03 for a name that none takes; None for others, as a missing file."""
    if error.errno == errno.ENAMETOOLONG:
        name = os.path.basename(os.fspath(error.filename or ""))
        what = f"{name[:40]!r}... is too long for the name of a file: {len(name)} characters"
        return Fault("CLI03", what, why="most systems take 255 bytes", fix="a shorter name or path")
    if error.errno not in (*FULL, *REFUSED, *BROKEN):
        return None
    place = error.filename2 or error.filename or os.environ.get(VARIABLE) or "a file"
    if error.errno in FULL:
        fix = "make room there, or --logdir /a/larger/disk"
    elif error.errno in REFUSED:
        fix = "--logdir /a/place/that/can/be/written, or give this user the right to write there"
    else:
        fix = "look at the disk (dmesg names it); --logdir /another/disk"
    return Fault(
        "DSK01",
        f"cannot use {place}: {error.strerror}",
        why="the run ends here; checkpoints that were written before are as they were",
        fix=fix,
    )
