"""No test waits for the disk: a file outlives the process that wrote it, and nobody cuts the power.

A run flushes some twenty files and folders, each of which takes 5 to 15 ms. What is flushed, and in which order, is for
`unit/ldm/files/test_replacing.py` and `unit/lun/checkpoints/test_atomic.py`.
"""

import os


def leave_unflushed() -> None:
    """For the rest of this process. What is no open file is an error as before."""
    os.fsync = os.fstat  # type: ignore[assignment]
