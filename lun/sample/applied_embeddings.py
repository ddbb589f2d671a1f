"""Files of embeddings whose words the prompts of a model that is only drawn from may use."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ldm.adapters.embedding_files import read_embedding
from ldm.adapters.token_embeddings import AddedVectors, token_tables
from ldm.errors import Fault
from ldm.models.diffusion.ddpm import DDPM

log = logging.getLogger(__name__)
WHERE = "--embedding"


@dataclass(frozen=True)
class AppliedEmbedding:
    """A file of an embedding, and the word for it; empty where the file's own, or its name, is the word."""

    path: Path
    word: str = ""

    @classmethod
    def parse(cls, given: str) -> "AppliedEmbedding":
        """Of `FILE` or `FILE=WORD`. Raises `Fault` CLI03 for an empty word."""
        file, equals, word = given.rpartition("=")
        if not equals or Path(given).exists():
            return cls(Path(given))
        if not word or not file:
            raise Fault("CLI03", f"{given!r} is no embedding", where=WHERE, fix=f"{WHERE} cat.safetensors=<cat>")
        return cls(Path(file), word)


def apply_embeddings(model: DDPM, embeddings: Sequence[AppliedEmbedding]) -> tuple[str, ...]:
    """Let prompts of a built model use them; returns what each is, as pictures record it.

    Raises `Fault` MOD01, MOD02 or MOD05 for files that cannot be read, MOD03 for what is no embedding or one of another
    family, CFG08 for a word that cannot be one's own.
    """
    tables = token_tables(model.trainable_networks()) if embeddings else []
    if embeddings and not tables:
        raise Fault("MOD03", "the model reads no captions to which words could be added", where=WHERE)
    names = []
    for number, embedding in enumerate(embeddings):
        file = read_embedding(embedding.path)
        rows = file.for_tables({table.encoder: table.width for table in tables}, str(embedding.path))
        word = embedding.word or file.token or embedding.path.stem
        for table in tables:
            vectors = rows[table.encoder].to(table.table.weight.device)
            table.add(f"embedding-{number}", AddedVectors(word, vectors), f"{WHERE} {embedding.path}=WORD")
        log.info("embedding %s is %s, vectors %d", word, embedding.path.name, len(next(iter(rows.values()))))
        names.append(f"{embedding.path.name}={word}")
    return tuple(names)
