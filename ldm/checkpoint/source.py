"""Where a part's weights lie: a file, or a folder as diffusers and transformers write it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.checkpoint.read import missing, read_state_dict
from ldm.checkpoint.state import State

STEMS = ("diffusion_pytorch_model", "model", "pytorch_model")
ENDINGS = (".safetensors", ".safetensors.index.json", ".fp16.safetensors", ".bin", ".bin.index.json", ".fp16.bin")


@dataclass(frozen=True)
class Source:
    """The files that together hold a part's weights, and the `config.json` beside them (empty for a single file)."""

    files: tuple[Path, ...]
    config: Mapping[str, Any]

    def read(self) -> State:
        """All tensors, under the names that the files use; see `read_state_dict` for faults."""
        return {key: value for file in self.files for key, value in read_state_dict(file).items()}


def find_source(path: str | Path, component: str) -> Source:
    """The weights of `component` (unet, vae, text_encoder) at `path`: a file, its folder, or a whole pipeline's folder.

    Raises `Fault` MOD01 if there are none; names what is there.
    """
    path = Path(path)
    if not path.is_dir():
        if not path.is_file():
            raise missing(path)
        return Source((path,), {})
    folder = path / component if (path / component).is_dir() else path
    files = _weights_in(folder)
    if not files:
        raise missing(folder)
    return Source(files, read_config(folder))


def read_config(folder: Path) -> dict[str, Any]:
    """The settings in a folder's `config.json` without the marks of the library that wrote it; {} if there is none."""
    file = folder / "config.json"
    stored = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return {key: value for key, value in stored.items() if not key.startswith("_")}


def _weights_in(folder: Path) -> tuple[Path, ...]:
    for ending in ENDINGS:
        for stem in STEMS:
            if (file := folder / (stem + ending)).is_file():
                return _shards(file) if ending.endswith(".json") else (file,)
    return ()


def _shards(index: Path) -> tuple[Path, ...]:
    names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    return tuple(index.parent / name for name in sorted(set(names)))
