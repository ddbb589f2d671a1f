"""All that a run with an `adapter_config` trained, as files of other programs: adapters of layers, and embeddings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from ldm.adapters.adapter_files import Layout
from ldm.adapters.adapter_set import AdapterSet
from ldm.adapters.embedding_files import ALONE, TOKEN, to_file, write_a1111
from ldm.adapters.token_embeddings import token_tables
from ldm.errors import Fault
from ldm.families.registry import family_of
from ldm.files.write import HASH, NO_HASH, write_safetensors
from ldm.models.diffusion.adapter_weights import base_state, count_of_layers, trained_adapters, with_adapters
from ldm.models.diffusion.ddpm import DDPM
from ldm.models.diffusion.export_facts import facts_of

A1111 = ".pt"


@dataclass(frozen=True)
class TrainedEmbedding:
    """The vectors (v, width) of one word by encoder, as rules know these."""

    name: str
    word: str
    vectors: Mapping[str, Tensor]


@dataclass(frozen=True)
class AdapterExport:
    """What trained beside a base.

    adapters      of layers, where there are any
    architecture  ModelSpec's name of the base, "" for a family of one's own
    run           what the run says of itself
    """

    adapters: AdapterSet | None
    embeddings: Sequence[TrainedEmbedding]
    architecture: str
    run: Mapping[str, str]

    @classmethod
    def of(cls, model: DDPM, state: Mapping[str, Tensor], source: str, run: Mapping[str, str]) -> "AdapterExport":
        """With the numbers of a checkpoint's state. Raises as `with_adapters` and `trained_adapters` do."""
        networks = with_adapters(model, state, source)
        unet, prediction = base_state(networks["unet"]), facts_of(model, {}).prediction
        adapters = trained_adapters(networks, source, prediction) if count_of_layers(networks) else None
        family = family_of(unet, source)
        architecture = family.spec(unet, prediction).architecture if family else ""
        return cls(adapters, _embeddings(networks), architecture, run)

    def paths(self, out: Path) -> list[Path]:
        """The files that `write` makes: OUT, and where there are several things, OUT-NAME for each embedding."""
        return [*([out] if self.adapters else []), *(self._path(out, embedding) for embedding in self.embeddings)]

    def metadata(self) -> dict[str, str]:
        """What the run says of itself, with ModelSpec's name of what is written first."""
        kind = "lora" if self.adapters else "textual-inversion"
        return {**self.run, **({"modelspec.architecture": f"{self.architecture}/{kind}"} if self.architecture else {})}

    def write(self, out: Path, layout: Layout, dtype: torch.dtype | None) -> dict[Path, str]:
        """Write them, and say what each file holds.

        For "diffusers" the word is the key of a single encoder's vectors, as `load_textual_inversion` wants it.
        Raises `Fault` MOD02 for what is not finite, CLI03 for a .pt file of more than one encoder's vectors, and as
        writing does.
        """
        if out.suffix == A1111 and (self.adapters or any(len(one.vectors) > 1 for one in self.embeddings)):
            why = "A1111's .pt files hold an embedding for one text encoder"
            raise Fault("CLI03", f"{out} cannot hold this", why=why, fix=str(out.with_suffix(".safetensors")))
        written = {}
        if self.adapters is not None:
            self.adapters.write(out, layout, dtype, {**self.run, "modelspec.title": out.stem})
            written[out] = f"adapters of {len(self.adapters.layers)} layers"
        for embedding in self.embeddings:
            path = self._path(out, embedding)
            self._write_embedding(path, embedding, layout, dtype)
            count = len(next(iter(embedding.vectors.values())))
            written[path] = f"embedding of {embedding.word}, vectors {count}"
        return written

    def _write_embedding(
        self, path: Path, embedding: TrainedEmbedding, layout: Layout, dtype: torch.dtype | None
    ) -> None:
        vectors = {name: rows if dtype is None else rows.to(dtype) for name, rows in embedding.vectors.items()}
        if not all(bool(rows.isfinite().all()) for rows in vectors.values()):
            raise Fault("MOD02", f"the embedding of {embedding.word} holds NaN or infinite numbers", where=path.name)
        if path.suffix == A1111:
            step = self.run.get("ss_steps", "")
            write_a1111(path, next(iter(vectors.values())), embedding.word, int(step) if step.isdecimal() else None)
            return
        state = to_file(vectors, ALONE if layout == "kohya" else embedding.word)
        said = {"modelspec.sai_model_spec": "1.0.1", "modelspec.title": path.stem, HASH: NO_HASH, TOKEN: embedding.word}
        spec = {"modelspec.architecture": f"{self.architecture}/textual-inversion"} if self.architecture else {}
        write_safetensors(path, state, {"format": "pt", **self.run, **said, **spec})

    def _path(self, out: Path, embedding: TrainedEmbedding) -> Path:
        alone = self.adapters is None and len(self.embeddings) == 1
        return out if alone else out.with_name(f"{out.stem}-{embedding.name}{out.suffix}")


def _embeddings(networks: Mapping[str, nn.Module]) -> list[TrainedEmbedding]:
    """Those whose vectors were there to be learned."""
    tables = [(table.encoder, table.added()) for table in token_tables(networks)]
    names = {name: added.word for _, words in tables for name, added in words.items() if added.trains}
    return [
        TrainedEmbedding(name, word, {encoder: words[name]().detach() for encoder, words in tables})
        for name, word in names.items()
    ]
