"""How large a pickle becomes when it is read: a few hundred bytes can name one object 2^60 times over.

torch.load runs no code of a file, but it builds what the pickle says. A tuple of two times the same tuple, sixty levels
deep, is never hashed as a key; nested deep enough, hashing it ends the process. So the pickle is followed here first,
as a graph of which container holds which, without building any of them.
"""

import pickletools
from collections.abc import Callable, Iterator
from typing import IO

DEEPEST = 200
MOST_VALUES = 10_000_000
"""Values in containers, each counted as often as it is named; a training checkpoint of SDXL has 300,000."""

_LEAVES = {b"N": 0, b"\x88": 0, b"\x89": 0, b"K": 1, b"M": 2, b"J": 4, b"G": 8}
"""Values of a fixed size, by their opcodes, and the bytes that follow: None, booleans, integers, floats."""

_OPCODES = frozenset(code.code.encode("latin-1") for code in pickletools.opcodes)


def require_bounded(stream: IO[bytes]) -> None:
    """Follow one pickle of `stream` to its end. ValueError where it is too deep, too large or endless.

    Opcodes that torch's reader refuses end it too: torch goes no further either. A broken stream is a ValueError.
    """
    graph = _Graph(stream)
    try:
        graph.follow()
    except (IndexError, KeyError, OverflowError, MemoryError) as error:
        raise ValueError(f"its pickle is broken ({error})") from error
    graph.require_bounded()


class _Graph:
    """The containers of a pickle, by number; 0 is any value that holds none.

    A checkpoint has some 30 opcodes for each tensor and is looked through at every start, so opcodes are separated by
    one look into a table: `pickletools.genops`, which names each and decodes what follows, takes three times as long.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.read = stream, stream.read
        self.inner: list[list[int]] = [[]]
        self.stack: list[int] = []
        self.below: list[list[int]] = []
        self.memo: dict[int, int] = {}

    def follow(self) -> None:
        """Do what the opcodes do to the stack, up to the last that torch's reader takes."""
        read, steps = self.read, self._steps()
        while True:
            opcode = read(1)
            if (size := _LEAVES.get(opcode)) is not None:
                self.stack.append(0)
                if size:
                    read(size)  # of a stream that ends here the next opcode is missing
            elif step := steps.get(opcode):
                step()
            elif opcode in _OPCODES:
                return
            else:
                raise ValueError(f"its pickle is broken (no opcode: {opcode!r})")

    def _steps(self) -> dict[bytes, Callable[[], None]]:
        return {
            b"\x80": lambda: self.skip(1),  # PROTO
            b"X": lambda: self.text(4),  # BINUNICODE
            b"U": lambda: self.text(1),  # SHORT_BINSTRING
            b"\x8a": lambda: self.text(1),  # LONG1
            b"c": self.named,  # GLOBAL
            b"q": lambda: self.remember(1),  # BINPUT
            b"r": lambda: self.remember(4),  # LONG_BINPUT
            b"h": lambda: self.recall(1),  # BINGET
            b"j": lambda: self.recall(4),  # LONG_BINGET
            **dict.fromkeys((b")", b"]", b"}", b"\x8f"), lambda: self.put([])),  # EMPTY_TUPLE, _LIST, _DICT, _SET
            b"\x85": lambda: self.put(self.taken(1)),  # TUPLE1
            b"\x86": lambda: self.put(self.taken(2)),
            b"\x87": lambda: self.put(self.taken(3)),
            b"a": lambda: self.into(self.taken(1)),  # APPEND
            b"b": lambda: self.into(self.taken(1)),  # BUILD
            b"s": lambda: self.into(self.taken(2)),  # SETITEM
            b"(": self.mark,
            b"t": lambda: self.put(self.marked()),  # TUPLE
            b"e": lambda: self.into(self.marked()),  # APPENDS
            b"u": lambda: self.into(self.marked()),  # SETITEMS
            b"R": lambda: self.put(self.taken(2)),  # REDUCE
            b"\x81": lambda: self.put(self.taken(2)),  # NEWOBJ
            b"Q": self.stored,  # BINPERSID
        }

    def number(self, size: int) -> int:
        return int.from_bytes(self.read(size), "little")

    def skip(self, size: int) -> None:
        self.read(size)

    def text(self, size: int) -> None:
        self.read(self.number(size))
        self.stack.append(0)

    def named(self) -> None:
        self.stream.readline()
        self.stream.readline()
        self.stack.append(0)

    def remember(self, size: int) -> None:
        self.memo[self.number(size)] = self.stack[-1]

    def recall(self, size: int) -> None:
        self.stack.append(self.memo[self.number(size)])

    def mark(self) -> None:
        self.below.append(self.stack)
        self.stack = []

    def stored(self) -> None:
        self.taken(1)
        self.stack.append(0)

    def put(self, items: list[int]) -> None:
        self.inner.append(items)
        self.stack.append(len(self.inner) - 1)

    def into(self, items: list[int]) -> None:
        """Add to the container on top; a value that holds none becomes one."""
        if self.stack[-1] == 0:
            self.stack.pop()
            self.put([])
        self.inner[self.stack[-1]].extend(items)

    def taken(self, count: int) -> list[int]:
        if count > len(self.stack):
            raise IndexError("it takes more values than there are")
        items = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return items

    def marked(self) -> list[int]:
        items, self.stack = self.stack, self.below.pop()
        return items

    def require_bounded(self) -> None:
        sizes, depths, held = [1] * len(self.inner), [0] * len(self.inner), bytearray(len(self.inner))
        for number in self._from_the_innermost():
            items = self.inner[number]
            # Of the values that a container names twice, both count: whoever walks it meets both.
            sizes[number], depths[number] = 1 + len(items), 1
            if any(items):
                sizes[number] = 1 + sum([sizes[item] for item in items])
                depths[number] = 1 + max([depths[item] for item in items])
                for item in items:
                    held[item] = 1
            if depths[number] > DEEPEST:
                raise ValueError(f"its values are nested deeper than {DEEPEST} levels")
            if sizes[number] > MOST_VALUES:
                raise ValueError(f"written out it has more than {MOST_VALUES:,} values")
        if sum(size for size, inside in zip(sizes[1:], held[1:], strict=True) if not inside) > MOST_VALUES:
            raise ValueError(f"written out it has more than {MOST_VALUES:,} values")

    def _from_the_innermost(self) -> Iterator[int]:
        """Every container after those that it holds."""
        done, open_now = [True] + [False] * (len(self.inner) - 1), [False] * len(self.inner)
        for start in range(1, len(self.inner)):
            waiting = [start]
            while waiting:
                number = waiting[-1]
                below = [] if open_now[number] else [item for item in self.inner[number] if not done[item]]
                if not below:
                    waiting.pop()
                    if not done[number]:
                        done[number] = True
                        yield number
                    continue
                open_now[number] = True
                if any(open_now[item] for item in below):
                    raise ValueError("one of its values holds itself")
                waiting.extend(below)
