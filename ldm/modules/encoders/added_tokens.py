"""Words of one's own in captions, each of which stands for vectors beside those of an encoder's vocabulary."""

import re
from collections.abc import Callable, Sequence

from ldm.errors import Fault
from ldm.modules.encoders.chunks import Tokenize


class AddedTokens:
    """Words that an encoder's vocabulary lacks: in captions each becomes the ids of its vectors, in any case.

    A word counts where it stands alone: `sks` not in `asks`; `<cat>`, which brings its own ends, everywhere.

    first      the id of the first vector, which is the number of those in the vocabulary
    is_known   whether the vocabulary has a text as one token
    """

    def __init__(self, first: int, is_known: Callable[[str], bool] = lambda word: False) -> None:
        self._next = first
        self._is_known = is_known
        self._ids: dict[str, list[int]] = {}
        self._pattern = re.compile("")

    def add(self, word: str, count: int, where: str) -> None:
        """Let `word` stand for the next `count` vectors. Raises `Fault` CFG08 for what cannot be one's own word.

        where   the setting or flag that asks for it
        """
        if not word or re.search(r"\s", word):
            why = "captions are read word by word"
            raise Fault("CFG08", f"{word!r} is no single word", where=where, why=why, fix="such as <my-cat>")
        if word.lower() in self._ids:
            what, fix = f"two embeddings are called {word}", "another word for one of them"
            raise Fault("CFG08", what, where=where, why="upper and lower case are the same to the encoder", fix=fix)
        if self._is_known(word):
            why = "the text encoder knows it as one token, which would no longer be read"
            raise Fault("CFG08", f"{word} is a word of the vocabulary", where=where, why=why, fix=f"<{word}>")
        self._ids[word.lower()] = list(range(self._next, self._next + count))
        self._next += count
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._pattern = re.compile(f"({'|'.join(map(_alone, longest_first))})", re.IGNORECASE)

    def ids(self, texts: Sequence[str], tokenize: Tokenize) -> list[list[int]]:
        """Token ids of texts; what lies between added words is read by `tokenize`."""
        if not self._ids:
            return tokenize(texts)
        parted = [self._pattern.split(text) for text in texts]  # every other part is a word of one's own
        between = [part for parts in parted for part in parts[::2]]
        read = iter(tokenize(between))
        rows = []
        for parts in parted:
            found = [self._ids[part.lower()] if number % 2 else next(read) for number, part in enumerate(parts)]
            rows.append([token for tokens in found for token in tokens])
        return rows

    def words_in(self, text: str) -> set[str]:
        """The added words that a text holds, in lower case."""
        return {word.lower() for word in self._pattern.split(text)[1::2]} if self._ids else set()


def _alone(word: str) -> str:
    """A pattern for a word that no letter or digit goes on from."""
    before = r"(?<!\w)" if re.match(r"\w", word) else ""
    after = r"(?!\w)" if re.search(r"\w$", word) else ""
    return before + re.escape(word) + after
