"""What the system says when it cannot write, as a fault that a person can put right."""

import errno
import os

from ldm.errors import Fault
from lun.launch.rundir import VARIABLE

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
REFUSED = (errno.EROFS, errno.EACCES, errno.EPERM)
BROKEN = (errno.EIO,)


def disk_fault(error: OSError) -> Fault | None:
    """DSK01 for an error of the disk itself; None for any other, such as a file that is missing."""
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
