"""Members of tar files: written so that equal input gives equal bytes, and read from a piece of one."""

import io
import tarfile
from collections.abc import Iterator, Sequence

from ldm.errors import Fault

BLOCK = 512
END = bytes(2 * BLOCK)
"""What a tar file ends with."""


def member(name: str, data: bytes) -> bytes:
    """One file of a tar archive (ustar): header, data, zeros up to the next block; it has no owner and no date.

    name  ASCII, at most 100 bytes
    """
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o644
    return info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(padding(data))


def members(piece: bytes, where: str) -> dict[str, bytes]:
    """Extension -> content of the files in a piece of a tar archive that begins with a header.

    Extensions begin at the first dot of the last part of a name, as WebDataset has them. Raises `Fault` DAT14.
    """
    try:
        return {extension(name): data for name, data in _files(piece)}
    except (tarfile.TarError, ValueError, IndexError) as error:
        why = f"its files cannot be distinguished: {error}"
        raise Fault("DAT14", f"{where} is no part of a tar file", where=where, why=why) from error


def extension(name: str) -> str:
    """`jpg` of `a/b.jpg`, `mask.png` of `a/b.mask.png`."""
    return name.rpartition("/")[2].partition(".")[2].lower()


def sample_key(name: str) -> str:
    """What files of one example share: the name up to the first dot of its last part."""
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(".")[0]


def _files(piece: bytes) -> Iterator[tuple[str, bytes]]:
    """Read by hand, since `tarfile` takes 20 times as long for three small headers."""
    at = 0
    while at + BLOCK <= len(piece) and piece[at]:
        header = piece[at : at + BLOCK]
        if header[156:157] in (b"x", b"g", b"L", b"K"):
            yield from _by_tarfile(piece[at:])
            return
        size = int(header[124:136].rstrip(b" \0") or b"0", 8)
        if at + BLOCK + size > len(piece):
            raise ValueError(f"a file of {size:,} bytes in a piece of {len(piece):,}")
        if header[156:157] in (b"0", b"\0"):
            yield header[:100].rstrip(b"\0").decode("utf-8", "replace"), piece[at + BLOCK : at + BLOCK + size]
        at += BLOCK + -(-size // BLOCK) * BLOCK


def _by_tarfile(piece: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(piece + bytes(padding(piece)) + END)) as archive:
        for info in archive:
            file = archive.extractfile(info) if info.isfile() else None
            if file is not None:
                yield info.name, file.read()


def whole_sample(files: Sequence[tuple[str, bytes]]) -> tuple[bytes, int]:
    """(bytes of the files one after the other, how many of them count: the padding of the last one does not)."""
    piece = b"".join(member(name, data) for name, data in files)
    return piece, len(piece) - padding(files[-1][1])


def padding(data: bytes) -> int:
    """How many zeros follow `data` up to the next block."""
    return -len(data) % BLOCK
