"""A time by which the process ends, however its tidying up goes."""

import os
import threading

END_SECONDS = 10.0


def end_within(seconds: float, code: int) -> threading.Timer:
    """End the process with `code` after `seconds`, unless the timer that this returns is cancelled before.

    Tidying up may wait for workers that never answer, and who has asked twice does not wait with it.
    """
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()
    return timer
