"""What a weights file really is, told from its bytes before any loader touches it."""

import json
import struct
import zipfile
from pathlib import Path
from typing import Literal

from ldm.errors import Fault
from ldm.shell import quoted

Format = Literal["zip", "legacy", "safetensors"]
"""`zip` and `legacy` are torch.save's formats since and before 2020."""

UNITS = ("kB", "MB", "GB", "TB")
LARGEST_HEADER = 100_000_000  # bytes, safetensors' own limit
LEGACY_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
ARCHIVES = {
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"GGUF": "a GGUF file",
}
AGAIN = "download the file again"


def sniff(path: Path) -> Format:
    """The format of a weights file, whatever its name ends in.

    Raises `Fault` MOD02 for what is no weights file or only a piece of one, and MOD05 for a bare pickle.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(512)
    if head.startswith(b"PK\x03\x04"):
        _check_zip(path, size)
        return "zip"
    if head.startswith(LEGACY_MAGIC):
        return "legacy"
    if length := _header_length(head):
        _check_safetensors(path, size, length)
        return "safetensors"
    raise _impostor(path, size, head)


def require_undamaged(path: Path) -> None:
    """Raise `Fault` MOD02 if a part of torch's zip file does not match its checksum, which torch itself never asks."""
    try:
        with zipfile.ZipFile(path) as archive:
            part = archive.testzip()
    except Exception as error:  # damage can make the reader of zip files fail in any way
        raise _fault(path, "a damaged torch file", why=str(error)) from error
    if part:
        raise _fault(path, "a damaged torch file", why=f"its part {part} does not match its checksum")


def readable_size(size: int) -> str:
    """Bytes as people write them: 133 bytes, 1.9 MB, 4.3 GB."""
    if size < 1000:
        return f"{size} bytes"
    power = min(4, (len(str(size)) - 1) // 3)
    return f"{size / 1000**power:.1f} {UNITS[power - 1]}"


def _header_length(head: bytes) -> int | None:
    """Length of a safetensors header, None if the file has none; a file cut off within its header has one."""
    if len(head) < 9 or head[8:9] != b"{":
        return None
    (length,) = struct.unpack("<Q", head[:8])
    return length if 2 <= length <= LARGEST_HEADER else None


def _check_safetensors(path: Path, size: int, length: int) -> None:
    with path.open("rb") as file:
        file.seek(8)
        text = file.read(length)
    if len(text) < length:
        raise _fault(path, f"a piece of a safetensors file, cut off within its header of {length} bytes")
    try:
        header = json.loads(text)
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _fault(path, "a safetensors file with a damaged header", why=str(error)) from error
    expected = 8 + length + max(ends, default=0)
    if size < expected:
        raise _fault(path, f"a truncated safetensors file (got {readable_size(size)} of {readable_size(expected)})")
    if size > expected:
        raise _fault(path, f"a safetensors file with {size - expected} bytes too many")


def _check_zip(path: Path, size: int) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise _fault(path, f"a truncated torch file (it ends after {readable_size(size)})") from error
    if not any(name.endswith("/data.pkl") for name in names):
        why = f"it holds {', '.join(names[:3]) or 'nothing'}"
        raise _fault(path, "an ordinary zip archive", why=why, fix="unpack it")


def _impostor(path: Path, size: int, head: bytes) -> Fault:
    if size == 0:
        return _fault(path, "an empty file")
    if head.startswith(b"version https://git-lfs"):
        real = next((line.split()[1].decode() for line in head.splitlines() if line.startswith(b"size ")), "unknown")
        why = f"the repository was cloned without git-lfs (the pointer says the real file has {real} bytes)"
        return _fault(path, f"a git-lfs pointer ({size} bytes)", why=why, fix=f"git lfs pull, or {AGAIN}")
    if head.lstrip().startswith(b"<"):
        why = f"it begins with {head.lstrip()[:20]!r}: the download gave an error or login page"
        return _fault(path, f"a web page ({readable_size(size)})", why=why)
    if head.lstrip().startswith(b"{"):
        return _fault(path, f"a JSON text ({readable_size(size)})", why="it is an index, a config or an error message")
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return bare_pickle(path)
    for magic, kind in ARCHIVES.items():
        if head.startswith(magic):
            return _fault(path, kind, fix="unpack or convert it first")
    if not head.strip(b"\0"):
        return _fault(path, "an unfinished download", why="it begins with nothing but zeros")
    return _fault(path, f"no format that is known here ({readable_size(size)})", why=f"it begins with {head[:16]!r}")


def bare_pickle(path: Path, objects: str = "a bare Python pickle") -> Fault:
    """MOD05: the file would have to be opened by running code out of it."""
    return Fault(
        "MOD05",
        f"{path} holds {objects} and was not opened",
        why="opening such a file runs code from it",
        fix="take a .safetensors file of the same model; or if you trust where it came from:\n"
        f"python -m lun.convert {quoted(path, path.with_suffix('.safetensors'))} --to ldm --trust-pickle",
    )


def _fault(path: Path, kind: str, *, why: str = "", fix: str = AGAIN) -> Fault:
    return Fault("MOD02", f"{path} is not a checkpoint: it is {kind}", why=why, fix=fix)
