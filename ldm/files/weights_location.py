"""Where a part's weights lie: a file, or a folder as diffusers and transformers write it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.files.hub import pipeline_folder
from ldm.files.read import read_outline, read_state_dict
from ldm.files.state import State
from ldm.files.weights_path import missing, path_of_weights
from ldm.plain import read_json as read_plain

STEMS = ("diffusion_pytorch_model", "model", "pytorch_model")
ENDINGS = (".safetensors", ".safetensors.index.json", ".fp16.safetensors", ".bin", ".bin.index.json", ".fp16.bin")


@dataclass(frozen=True)
class ComponentFiles:
    """The files that together hold a part's weights, and the `config.json` beside them (empty for a single file)."""

    files: tuple[Path, ...]
    config: Mapping[str, Any]

    def read(self) -> State:
        """All tensors, under the names that the files use; see `read_state_dict` for faults."""
        return {key: value for file in self.files for key, value in read_state_dict(file).items()}

    def outline(self) -> State:
        """The same on the meta device: names and shapes without weights."""
        return {key: value for file in self.files for key, value in read_outline(file).state.items()}


def find_source(path: str | Path, component: str) -> ComponentFiles:
    """The weights of `component` (unet, vae, text_encoder) at `path`, which may hold other components too.

    path  a file, the component's folder, or a whole pipeline's folder or hub id
    Raises `Fault` MOD01 if there are none; names what is there.
    """
    path = find_weights(path)
    if not path.is_dir():
        return ComponentFiles((path,), {})
    folder = path / component if (path / component).is_dir() else path
    files = _weights_in(folder)
    if not files:
        raise missing(folder)
    return ComponentFiles(files, read_config(folder))


def find_weights(given: str | Path) -> Path:
    """The file or folder that a person means: one that is there, else the local copy of a hub id (org/name[@rev]).

    Raises `Fault` MOD01 at once for a path at which there is nothing.
    """
    return path_of_weights(given) or pipeline_folder(str(given))


def require_one_start(from_scratch: bool, ckpt_path: object) -> None:
    """Raise `Fault` CFG08 for a part that is to start from noise and from a file."""
    if from_scratch and ckpt_path:
        raise Fault(
            "CFG08",
            f"from_scratch and ckpt_path {ckpt_path} contradict each other",
            why="a part starts from random weights or from those of a file",
            fix="leave out one of them",
        )


def architecture(ckpt_path: str | Path, component: str) -> dict[str, Any]:
    """The `config.json` of a component where `ckpt_path` is a folder that has one; {} for a file or an absent path."""
    path = Path(ckpt_path)
    folder = path / component if (path / component).is_dir() else path
    return read_config(folder)


def read_config(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """The settings in a folder's `config.json` without the marks of the library that wrote it; {} if there is none."""
    return {key: value for key, value in _read_stored(folder / name).items() if not key.startswith("_")}


def read_scheduler(pipeline: Path) -> dict[str, Any]:
    """The settings of a pipeline's scheduler, the name of its class among them (`_class_name`); {} if there is none."""
    return _read_stored(pipeline / "scheduler" / "scheduler_config.json")


def _read_stored(file: Path) -> dict[str, Any]:
    return read_json(file) if file.is_file() else {}


def _weights_in(folder: Path) -> tuple[Path, ...]:
    for ending in ENDINGS:
        for stem in STEMS:
            if (file := folder / (stem + ending)).is_file():
                return _shards(file) if ending.endswith(".json") else (file,)
    return ()


def _shards(index: Path) -> tuple[Path, ...]:
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise Fault("MOD02", f"{index} is no index of weights", why="it has no weight_map of file names")
    return tuple(index.parent / name for name in sorted(set(names.values())))


def read_json(file: Path) -> dict[str, Any]:
    """The map in a JSON file. Raises `Fault` MOD02 where it holds none."""
    try:
        stored = read_plain(file)
    except ValueError as error:
        raise Fault("MOD02", f"{file} is no JSON that can be read", why=str(error), fix="download it again") from error
    if not isinstance(stored, dict):
        raise Fault("MOD02", f"{file} is no JSON map", why=f"it holds a {type(stored).__name__}")
    return stored
