"""Ways in which files come to harm."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path


def truncated(path: Path) -> None:
    """An interrupted copy."""
    with path.open("rb+") as file:
        file.truncate(path.stat().st_size * 2 // 3)


def emptied(path: Path) -> None:
    """A file whose name reached the disk and whose content did not."""
    path.write_bytes(b"")


def zeroed(path: Path) -> None:
    """A block of 4 KiB that was never written, as a power loss leaves it."""
    start = path.stat().st_size // 2 // 4096 * 4096
    _overwrite(path, start, bytes(4096))


def flipped(path: Path) -> None:
    """One bit of a large tensor, as bad memory or a dying disk leaves it."""
    flip(path, path.stat().st_size // 2)


def replaced(path: Path) -> None:
    """A web page that was saved in its place."""
    path.write_text("<!doctype html><title>404</title>")


DAMAGES: dict[str, Callable[[Path], None]] = {
    damage.__name__: damage for damage in (truncated, emptied, zeroed, flipped, replaced)
}


def flip(path: Path, position: int, bit: int = 3) -> None:
    with path.open("rb+") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ (1 << bit)]))


def flips(path: Path, copy: Path, count: int, seed: int = 0) -> Iterator[int]:
    """`copy` of the file with one bit flipped, time after time, at positions that are yielded.

    Half of them lie in the first or last 4 KiB, where formats keep what they say about themselves.
    """
    chance = random.Random(seed)
    content = path.read_bytes()
    for number in range(count):
        edge = min(4096, len(content))
        places = ((0, len(content)), (0, edge), (0, len(content)), (len(content) - edge, len(content)))
        position, bit = chance.randrange(*places[number % 4]), chance.randrange(8)
        harmed = bytearray(content)
        harmed[position] ^= 1 << bit
        copy.write_bytes(harmed)
        yield position


def _overwrite(path: Path, start: int, content: bytes) -> None:
    with path.open("rb+") as file:
        file.seek(start)
        file.write(content[: path.stat().st_size - start])
