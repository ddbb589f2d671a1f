"""`lerp.c`, compiled once on the machine that it runs on, where that has a C compiler."""

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

from ldm.operating_system import open_to_read
from ldm.place import cache_root, is_own, private_folder

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("lerp.c")
# Without contraction, what is fused is what the file says: results do not depend on the compiler.
FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC")
SECONDS = 60  # a compiler that takes longer hangs
DTYPES = (torch.float32, torch.bfloat16)
SHARE = 1 << 20  # elements from which a further thread is worth its start


class _Source(ctypes.Structure):
    _fields_ = [
        ("values", ctypes.c_void_p),
        ("place", ctypes.c_int64),
        ("size", ctypes.c_int64),
        ("bfloat16", ctypes.c_int32),
    ]


class Kernel:
    """The compiled file at `library`; OSError if it cannot be loaded, or is not a file of this user's own."""

    def __init__(self, library: Path) -> None:
        self._call = _load(library).ema_lerp
        self._call.restype = ctypes.c_int64
        floats, places = ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_void_p)
        span = [ctypes.c_int64] * 3
        self._call.argtypes = [ctypes.POINTER(_Source), *span, places, floats, ctypes.c_int32]

    def lerp(
        self, averages: Sequence[Tensor], sources: Sequence[tuple[int, Tensor]], weights: Sequence[float], threads: int
    ) -> int:
        """Move flat fp32 `averages` towards `sources`, (place in them, contiguous CPU tensor of a dtype in `DTYPES`).

        Returns how many source values are not finite; those leave their averages as they are.
        """
        table = (_Source * len(sources))(
            *(_Source(source.data_ptr(), at, source.numel(), source.dtype == torch.bfloat16) for at, source in sources)
        )
        flats = (ctypes.c_void_p * len(averages))(*(average.data_ptr() for average in averages))
        shares = (ctypes.c_float * len(weights))(*weights)
        total = sum(source.numel() for _, source in sources)
        threads = max(1, min(threads, total // SHARE))
        bounds = [total * i // threads for i in range(threads + 1)]

        def act(begin: int, end: int) -> int:
            return int(self._call(table, len(table), begin, end, flats, shares, len(averages)))

        if threads == 1:
            return act(0, total)
        with ThreadPoolExecutor(threads) as pool:  # the call lets go of Python's lock
            return sum(pool.map(act, bounds[:-1], bounds[1:]))


@functools.cache
def kernel() -> Kernel | None:
    """The kernel, compiled at the first call on a machine and kept in the cache; None, with the reason logged, without.

    Its place names the file, the compiler and the processor, so that machines may share a home. Where others can write
    to the cache it is compiled anew by each process, in a folder of its own.
    """
    try:
        kept = cache_root() / "compiled"
        if private_folder(kept):
            return Kernel(_compiled(kept))
        logger.info("%s is open to others: code for the averages is compiled anew, not taken from there", kept)
        with tempfile.TemporaryDirectory() as own:  # what was loaded stays when its file goes
            return Kernel(_compiled(Path(own)))
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", None) or str(error)
        logger.info("averages are moved by torch, a third slower than by compiled code: %s", detail.strip()[-300:])
        return None


def compiler() -> list[str]:
    """The words of the C compiler: `CC`, else cc, gcc or clang; FileNotFoundError without."""
    given = shlex.split(os.environ.get("CC", ""))
    for words in [given] if given else [["cc"], ["gcc"], ["clang"]]:
        if program := shutil.which(words[0]):
            return [program, *words[1:]]
    raise FileNotFoundError(f"no C compiler ({given[0] if given else 'cc, gcc or clang'})")


def _load(library: Path) -> ctypes.CDLL:
    """The library that is looked at and the one that is loaded are the same open file."""
    file = open_to_read(library, follow=False)
    try:
        if not is_own(os.fstat(file), stat.S_ISREG):
            raise PermissionError(f"{library} belongs to another user, or others can write to it")
        opened = Path(f"/proc/self/fd/{file}")
        return ctypes.CDLL(str(opened if opened.exists() else library))
    finally:
        os.close(file)


def _compiled(folder: Path) -> Path:
    words = [*compiler(), *FLAGS]
    identity = "\0".join([SOURCE.read_text(), *words, platform.machine(), _processor()])
    place = folder / f"ema_lerp-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.so"
    if not (place.exists() and is_own(os.lstat(place), stat.S_ISREG)):
        with tempfile.TemporaryDirectory(dir=folder) as unfinished:
            made = Path(unfinished) / place.name
            command = [*words, str(SOURCE), "-o", str(made)]
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS)
            made.chmod(0o700)  # whatever the umask says
            made.replace(place)  # at once, since other ranks may look
    return place


def _processor() -> str:
    """What decides which instructions there are."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
