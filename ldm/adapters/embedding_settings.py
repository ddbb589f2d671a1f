"""What a configuration says of embeddings: words of one's own, where their vectors start, and whether they train."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ldm.adapters.embedding_files import read_embedding
from ldm.adapters.token_embeddings import WHERE, AddedVectors, TokenTable, token_tables
from ldm.errors import Fault

LENGTHS = ("median", "none")


@dataclass(frozen=True)
class Embedding:
    """One word of one's own.

    token      how captions write it; <NAME> where it is not given
    vectors    how many vectors it stands for; as many as `init` has tokens, or the file vectors, where it is not given
    init       text whose tokens' vectors it starts from, over again where `vectors` is more
    file       a file of an embedding to start from instead
    train      false leaves the vectors of a file as they are
    keep_norm  `median`: each vector keeps the usual length of the table's and learns its direction alone; or `none`
    """

    name: str
    token: str = ""
    vectors: int | None = None
    init: str | None = None
    file: str | None = None
    train: bool = True
    keep_norm: str = "none"

    @property
    def where(self) -> str:
        return f"{WHERE}.{self.name}"

    @classmethod
    def parse(cls, name: str, given: Any) -> "Embedding":
        """Raises `Fault` CFG03 for what is no embedding."""
        where = f"{WHERE}.{name}"
        known = [field.name for field in fields(cls) if field.name != "name"]
        if not isinstance(given, Mapping):
            raise _refused(where, f"{where} is no embedding", f"got {given!r}", f"{where}={{init: cat}}")
        if unknown := [key for key in given if key not in known]:
            near = difflib.get_close_matches(str(unknown[0]), known, 1)
            why = f"an embedding takes {', '.join(known)}"
            raise _refused(where, f"unknown setting {unknown[0]}", why, f"did you mean {near[0]}?" if near else "")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name) or hasattr(nn.Module(), name):
            what = f"{name!r} cannot be the name of an embedding"
            raise _refused(where, what, "it names tensors and files: letters, digits, _ and -", f"my-{name}")
        embedding = cls(name, **{"token": f"<{name}>"} | dict(given))
        embedding._require_whole()
        return embedding

    def _require_whole(self) -> None:
        for key, kind in (("token", str), ("init", str), ("file", str), ("train", bool), ("vectors", int)):
            value = getattr(self, key)
            optional = value is None and key in ("init", "file", "vectors")
            if not optional and type(value) is not kind:
                raise _refused(f"{self.where}.{key}", f"{key} is {value!r}", f"it takes {kind.__name__}")
        if self.keep_norm not in LENGTHS:
            raise _refused(f"{self.where}.keep_norm", f"keep_norm is {self.keep_norm!r}", fix=" or ".join(LENGTHS))
        if self.vectors is not None and not 1 <= self.vectors <= 75:
            raise _refused(f"{self.where}.vectors", f"vectors is {self.vectors}", "a caption has 75 places", "1, or 4")
        if (self.init is None) == (self.file is None):
            both = "both init and file" if self.init is not None else "neither init nor file"
            fix = "init: a word for what it is like, or file: an embedding's"
            raise _refused(self.where, f"{self.name} says {both}", "vectors start from one of them", fix)
        if not self.train and (self.file is None or self.keep_norm != "none"):
            what = f"train: false of {self.name} leaves " + (
                "nothing to learn from init" if self.init else "no lengths"
            )
            raise _refused(
                self.where, what, "what does not train stays as its file has it", "delete train, or set file"
            )

    def place(self, tables: Sequence[TokenTable]) -> None:
        """Add it to every table. Raises `Fault` CFG08 for its word, MOD01 to MOD05 for its file."""
        if self.file is not None:
            found = read_embedding(Path(self.file)).for_tables({t.encoder: t.width for t in tables}, self.file)
        else:
            found = {table.encoder: table.rows_of(str(self.init)) for table in tables}
        for table in tables:
            rows = self._of_this_many(found[table.encoder])
            length = table.usual_length() if self.keep_norm == "median" else None
            vectors = AddedVectors(self.token, rows.to(table.table.weight.device), self.train, length)
            table.add(self.name, vectors, f"{self.where}.token")

    def _of_this_many(self, rows: Tensor) -> Tensor:
        """`rows` as often as they give so many vectors. Raises `Fault` CFG08 where none or some would be left out."""
        count = len(rows) if self.vectors is None else self.vectors
        if not len(rows):
            raise Fault("CFG08", f"init of {self.name} has no word", where=f"{self.where}.init", fix="init: cat")
        if len(rows) > count:
            what, given = f"{self.name} has {count} vectors and starts from {len(rows)}", self.file or repr(self.init)
            why = f"{given} has {len(rows)}, of which some would be left out"
            raise Fault(
                "CFG08", what, where=f"{self.where}.vectors", why=why, fix=f"vectors: {len(rows)}, or fewer words"
            )
        return rows[[number % len(rows) for number in range(count)]]


def place_embeddings(embeddings: Sequence[Embedding], networks: Mapping[str, nn.Module]) -> None:
    """Add all of them, in their order. Raises `Fault` CFG08 for a model that has no table of tokens."""
    tables = token_tables(networks) if embeddings else []
    if embeddings and not tables:
        raise Fault("CFG08", "the model has no text encoder that words could be added to", where=WHERE)
    for embedding in embeddings:
        embedding.place(tables)


def _refused(where: str, what: str, why: str = "", fix: str = "") -> Fault:
    return Fault("CFG03", what, where=where, why=why, fix=fix)
