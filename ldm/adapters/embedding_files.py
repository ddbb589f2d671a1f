"""Files of embeddings: A1111's, diffusers' and safetensors of one encoder or two, read without running code."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ldm.errors import Fault
from ldm.files.read import read_content, read_torch
from ldm.files.replacing import replacing
from ldm.files.sniff import sniff
from ldm.files.state import State
from ldm.files.weights_path import missing

ALONE = "emb_params"
"""The key of the vectors in files for models of one text encoder."""
KEYS = {"text_encoder": "clip_l", "text_encoder_2": "clip_g"}
"""{encoder as rules know it: key in files for models of several}"""
TOKEN = "lun.token"
"""In a header: how captions write the word."""
ANY_TOKEN = 265  # the id of `*` in CLIP's vocabulary, which A1111's files give


@dataclass(frozen=True)
class EmbeddingFile:
    """The vectors of one word by their keys, each (v, width) in fp32, and the word as the file has it, or ""."""

    vectors: Mapping[str, Tensor]
    token: str = ""

    def for_tables(self, widths: Mapping[str, int], source: str) -> dict[str, Tensor]:
        """The vectors for each encoder of a model. Raises `Fault` MOD03 for a file of another family of models.

        widths   {encoder as rules know it: width of its vectors}
        """
        keys = {encoder: KEYS[encoder] for encoder in widths}
        if len(widths) == 1 and not set(self.vectors) & set(KEYS.values()):
            keys = dict.fromkeys(widths, next(iter(self.vectors)))
        found = {encoder: self.vectors.get(key) for encoder, key in keys.items()}
        wrong = any(rows is None or rows.shape[1] != widths[encoder] for encoder, rows in found.items())
        if wrong or len(found) < len(self.vectors):
            held = ", ".join(f"{key} {list(rows.shape)}" for key, rows in self.vectors.items())
            why = f"it holds {held}; the model's text encoders have widths {', '.join(map(str, widths.values()))}"
            fix = "an embedding that was trained on the same family of models"
            raise Fault("MOD03", f"{source} is an embedding for other text encoders", why=why, fix=fix)
        return {encoder: rows for encoder, rows in found.items() if rows is not None}


def read_embedding(path: Path) -> EmbeddingFile:
    """Raises `Fault` MOD01, MOD02 or MOD05 for what cannot be read, MOD03 for what is no embedding of one word."""
    if not path.is_file():
        raise missing(path, "the embedding")
    if sniff(path) == "safetensors":
        content = read_content(path)
        named: Mapping[Any, Any] = content.state
        token = str(content.facts.get(TOKEN, ""))
    else:
        named, token = _of_torch(read_torch(path), path)
    if len(named) == 1:
        key, value = next(iter(named.items()))
        own = "" if key in (ALONE, *KEYS.values(), "*") else str(key)
        named = named if key in KEYS.values() else {ALONE: value}
        token = token or own
    elif not named or set(named) - set(KEYS.values()):
        raise _strange(path, f"its tensors are {', '.join(map(str, list(named)[:5])) or 'none'}")
    return EmbeddingFile({str(key): _rows(value, path) for key, value in named.items()}, token)


def _of_torch(content: Any, path: Path) -> tuple[Mapping[Any, Any], str]:
    """(tensors by key, the word) of A1111's files, in which each has a place of its own, and of diffusers'."""
    if not isinstance(content, Mapping):
        raise _strange(path, f"it holds a {type(content).__name__}")
    inner = content.get("string_to_param")
    if isinstance(inner, Mapping):
        return inner, str(content.get("name") or "")
    return {key: value for key, value in content.items() if isinstance(value, Tensor)}, ""


def _rows(value: Any, path: Path) -> Tensor:
    rows = value.detach().float() if isinstance(value, Tensor) and value.is_floating_point() else torch.empty(0, 0, 0)
    rows = rows[None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or not rows.numel():
        raise _strange(path, f"it holds {list(value.shape) if isinstance(value, Tensor) else value!r}")
    if not bool(rows.isfinite().all()):
        raise Fault("MOD03", f"{path} holds NaN or infinite numbers", fix="an earlier file of the embedding")
    return rows


def to_file(vectors: Mapping[str, Tensor], alone: str = ALONE) -> State:
    """The tensors of a file, from vectors by encoder; those of one encoder under the key `alone`."""
    return {KEYS[encoder] if len(vectors) > 1 else alone: rows.detach() for encoder, rows in vectors.items()}


def write_a1111(path: Path, rows: Tensor, token: str, step: int | None) -> None:
    """A1111's own file of one encoder's vectors (v, width), which diffusers and ComfyUI read as well; whole or not."""
    content = {
        "string_to_token": {"*": ANY_TOKEN},
        "string_to_param": {"*": rows.detach().clone()},
        "name": token,
        "step": step,
        "sd_checkpoint": None,
        "sd_checkpoint_name": None,
    }
    with replacing(path) as file:
        torch.save(content, file)


def _strange(path: Path, why: str) -> Fault:
    return Fault(
        "MOD03", f"{path} is no embedding of one word", why=why, fix="a file of A1111, diffusers or this program"
    )
