"""What the main thread is about, seen from a frame in which a signal finds it."""

from types import FrameType

LOADER = "torch.utils.data.dataloader"


def awaits_a_batch(frame: FrameType | None) -> bool:
    """Whether what runs in `frame` was called by a loader of torch, which reads or waits for who does."""
    while frame is not None:
        if frame.f_globals.get("__name__") == LOADER:
            return True
        frame = frame.f_back
    return False


def imports_a_module(frame: FrameType | None) -> bool:
    """Whether a module is being imported, seen from the innermost function of this program.

    Native code that a library begins with makes an abort of an exception, or drops it.
    """
    while frame is not None and not _is_ours(frame):
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _is_ours(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__"))
    return frame.f_code.co_name != "<module>" and module.partition(".")[0] in ("lun", "ldm")
