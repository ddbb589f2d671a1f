"""When Python looks for garbage: not while a program starts, since what it imports is there to stay."""

import gc


def put_off_collecting() -> None:
    """Look for no garbage until `collect_from_here`: a fifth of the time that importing Lightning takes."""
    gc.disable()


def collect_from_here() -> None:
    """Look for garbage again where it was put off, and never among what there is by now.

    Each later search is shorter by that, and workers that are forked share the memory of what nothing writes to.
    """
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def leave_uncollected() -> None:
    """At the end of a start that never came so far: Python would look through all of it once more, for no gain.

    That takes longer than most answers.
    """
    if not gc.isenabled():
        gc.freeze()
