"""How large a pickle becomes when it is read: a few hundred bytes can name one object 2^60 times over.

torch.load runs no code of a file, but it builds what the pickle says. A tuple of two times the same tuple, sixty levels
deep, is never hashed as a key; nested deep enough, hashing it ends the process. So the pickle is followed here first,
as a graph of which container holds which, without building any of them.
"""

import pickletools
from collections import Counter
from collections.abc import Iterator
from typing import IO

DEEPEST = 200
MOST_VALUES = 10_000_000
"""Values in containers, each counted as often as it is named; a training checkpoint of SDXL has 300,000."""

_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_EMPTY = frozenset({"EMPTY_TUPLE", "EMPTY_LIST", "EMPTY_DICT", "EMPTY_SET"})
_ITEMS = {"APPEND": 1, "SETITEM": 2, "BUILD": 1}
_LEAVES = frozenset(
    {"NONE", "NEWFALSE", "NEWTRUE", "BININT", "BININT1", "BININT2", "BINFLOAT", "BINUNICODE"}
    | {"SHORT_BINSTRING", "LONG1", "GLOBAL"}
)


def require_bounded(stream: IO[bytes]) -> None:
    """Follow one pickle of `stream` to its end. ValueError where it is too deep, too large or endless.

    Opcodes that torch's reader refuses end it too: torch goes no further either. A broken stream is a ValueError.
    """
    graph = _Graph()
    try:
        for opcode, argument, _ in pickletools.genops(stream):
            if not graph.follow(opcode.name, argument):
                break
    except (IndexError, KeyError, UnicodeError, OverflowError, MemoryError) as error:
        raise ValueError(f"its pickle is broken ({error})") from error
    graph.require_bounded()


class _Graph:
    """The containers of a pickle, by number; 0 is any value that holds none."""

    def __init__(self) -> None:
        self.inner: list[list[int]] = [[]]
        self.stack: list[int] = []
        self.below: list[list[int]] = []
        self.memo: dict[int, int] = {}

    def follow(self, name: str, argument: object) -> bool:
        """Do what an opcode does to the stack; whether torch's reader goes on after it."""
        if name in _LEAVES:
            self.stack.append(0)
        elif name in _EMPTY or name in _TUPLES:
            self.put(self.taken(_TUPLES.get(name, 0)))
        elif name in _ITEMS:
            items = self.taken(_ITEMS[name])
            self.into(items)
        elif name in ("BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]  # type: ignore[index]
        elif name in ("BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])  # type: ignore[index]
        elif name != "PROTO":
            return self._follow_rarer(name)
        return True

    def _follow_rarer(self, name: str) -> bool:
        if name == "MARK":
            self.below.append(self.stack)
            self.stack = []
        elif name == "TUPLE":
            self.put(self.marked())
        elif name in ("APPENDS", "SETITEMS"):
            self.into(self.marked())
        elif name in ("REDUCE", "NEWOBJ"):
            self.put(self.taken(2))
        elif name == "BINPERSID":
            self.taken(1)
            self.stack.append(0)
        else:
            return False
        return True

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
        sizes, depths = [1] + [0] * (len(self.inner) - 1), [0] * len(self.inner)
        for number in self._from_the_innermost():
            # Of the values that a container names twice, both count: whoever walks it meets both.
            sizes[number] = 1 + sum(sizes[item] for item in self.inner[number])
            depths[number] = 1 + max((depths[item] for item in self.inner[number]), default=0)
            if depths[number] > DEEPEST:
                raise ValueError(f"its values are nested deeper than {DEEPEST} levels")
            if sizes[number] > MOST_VALUES:
                raise ValueError(f"written out it has more than {MOST_VALUES:,} values")
        held = Counter(item for items in self.inner for item in set(items))
        if sum(size for number, size in enumerate(sizes) if not held[number]) > MOST_VALUES:
            raise ValueError(f"written out it has more than {MOST_VALUES:,} values")

    def _from_the_innermost(self) -> Iterator[int]:
        """Every container after those that it holds."""
        done, open_now = [True] + [False] * (len(self.inner) - 1), [False] * len(self.inner)
        for start in range(1, len(self.inner)):
            waiting = [start]
            while waiting:
                number = waiting[-1]
                if done[number]:
                    waiting.pop()
                elif open_now[number]:
                    waiting.pop()
                    done[number] = True
                    yield number
                else:
                    open_now[number] = True
                    below = [item for item in self.inner[number] if not done[item]]
                    if any(open_now[item] for item in below):
                        raise ValueError("one of its values holds itself")
                    waiting.extend(below)
