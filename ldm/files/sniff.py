"""The format of a weights file, read from its bytes before any loader touches it."""

import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from ldm.errors import Fault
from ldm.plain import fits, parse_json, require_ordinary
from ldm.shell import quoted

Format = Literal["zip", "legacy", "safetensors"]
"""`zip` and `legacy` are torch.save's formats since and before 2020."""

UNITS = ("kB", "MB", "GB", "TB")
LARGEST_HEADER = 100_000_000  # bytes, safetensors' own limit
LARGEST_FILE = 2**63
METADATA = "__metadata__"
PICKLE = "/data.pkl"  # of a torch file: what is not numbers
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
    size = _ordinary_size(path)
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


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Within it, whatever goes wrong is `Fault` MOD02 of a file that is not whole; a `Fault` is raised as it is.

    Nor is it entered for what is no file.
    """
    try:
        require_ordinary(path)
        yield
    except Fault:
        raise
    except Exception as error:  # readers of zip files and pickles, and code within these, may fail in any way
        why = ": ".join(filter(None, (type(error).__name__, str(error).split("\n")[0])))
        raise Fault("MOD02", f"{path} is not a whole checkpoint", why=why) from error


def require_undamaged(path: Path) -> None:
    """Raise `Fault` MOD02 if a part of torch's zip file does not match its checksum, which torch itself never asks."""
    with reading(path), zipfile.ZipFile(path) as archive:
        part = archive.testzip()
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


def safetensors_header(path: Path) -> dict[str, Any]:
    """The header of a whole .safetensors file, `__metadata__` and an entry a tensor. `Fault` MOD02."""
    size = _ordinary_size(path)
    with path.open("rb") as file:
        length = _header_length(file.read(9))
    if not length:
        raise _fault(path, "no .safetensors file")
    return _check_safetensors(path, size, length)


def _ordinary_size(path: Path) -> int:
    try:
        return require_ordinary(path)
    except ValueError as error:
        raise _fault(path, "no ordinary file", fix="name the file itself") from error


def _check_safetensors(path: Path, size: int, length: int) -> dict[str, Any]:
    with path.open("rb") as file:
        file.seek(8)
        text = file.read(length)
    if len(text) < length:
        raise _fault(path, f"a piece of a safetensors file, cut off within its header of {length} bytes")
    try:
        header: dict[str, Any] = parse_json(text)
        ends = [_end(entry["data_offsets"]) for name, entry in header.items() if name != METADATA]
        if not fits(header.get(METADATA, {}), dict[str, str]):
            raise ValueError("its metadata is not text")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise _fault(path, "a safetensors file with a damaged header", why=str(error)) from error
    expected = 8 + length + max(ends, default=0)
    if size < expected:
        raise _fault(path, f"a truncated safetensors file (got {readable_size(size)} of {readable_size(expected)})")
    if size > expected:
        raise _fault(path, f"a safetensors file with {size - expected} bytes too many")
    return header


def _end(offsets: Any) -> int:
    """Where a tensor ends, behind the header; ValueError for what is no place in a file."""
    start, end = offsets
    if not (type(start) is type(end) is int and 0 <= start <= end < LARGEST_FILE):
        raise ValueError(f"data_offsets {str(offsets)[:60]} are no places in a file")
    return end


def _check_zip(path: Path, size: int) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError) as error:  # damage raises all of them
        raise _fault(path, f"a truncated torch file (it ends after {readable_size(size)})") from error
    names = [part.filename for part in parts]
    if not any(name.endswith(PICKLE) for name in names):
        why = f"it holds {', '.join(names[:3]) or 'nothing'}"
        raise _fault(path, "an ordinary zip archive", why=why, fix="unpack it")
    if len({name.lower() for name in names}) < len(names):  # which of two would be read is each reader's choice
        raise _fault(path, "a damaged torch file", why="two of its parts have one name")
    if any(part.compress_type for part in parts) or sum(part.file_size for part in parts) > size:
        why = "its parts are compressed; torch.save stores them as they are"
        raise _fault(path, "a torch file that was packed again", why=why, fix="unpack it, and save it with torch")


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
        f"convert {quoted(path, path.with_suffix('.safetensors'))} with trust_pickle=true",
    )


def _fault(path: Path, kind: str, *, why: str = "", fix: str = AGAIN) -> Fault:
    return Fault("MOD02", f"{path} is not a checkpoint: it is {kind}", why=why, fix=fix)
