"""A checkpoint whose large tensors lie beside it: a folder with one .safetensors file of each rank that wrote it.

The torch file holds everything else, tensors on the meta device in their places, and under `shards` the folder's name
with size and hash of each file in it. In these a tensor's name is its place in the checkpoint and, after the last `@`,
where its elements begin in the flattened whole.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ldm.errors import Fault
from ldm.files.digest import sha256
from ldm.files.lazy_tensor import LazyShardedTensor, Run, covers
from ldm.files.write import pour_safetensors

ENTRY = "shards"
FOLDER = re.compile(r"(?P<checkpoint>.+)\.shards-[0-9a-f]{8}")
PLAIN_NAME = re.compile(r"[^/\\\0]*[^/\\\0.][^/\\\0]*")


@dataclass(frozen=True)
class ShardFile:
    """One rank's file: its name, bytes and their hash."""

    name: str
    size: int
    sha256: str

    def differs(self, folder: Path) -> str | None:
        """Why the file in `folder` is not the one that was written, None if it is."""
        path = folder / self.name
        if not path.is_file():
            return f"{folder.name}/{self.name} is missing, which belongs to it"
        if (size := path.stat().st_size) != self.size:
            return f"{folder.name}/{self.name} has {size:,} bytes, but {self.size:,} were written"
        if sha256(path) != self.sha256:
            return f"the contents of {folder.name}/{self.name} are not what was written"
        return None


@dataclass(frozen=True)
class RankShards:
    """The folder beside a checkpoint, and the files in it."""

    folder: Path
    files: tuple[ShardFile, ...]

    @classmethod
    def of(cls, content: Any, path: Path) -> "RankShards | None":
        """Those that the checkpoint at `path` names in its `content`; None for an ordinary one. `Fault` MOD02."""
        if not isinstance(content, Mapping) or ENTRY not in content:
            return None
        try:
            folder = _plain(content[ENTRY]["folder"])
            files = [ShardFile(_plain(name), **about) for name, about in content[ENTRY]["files"].items()]
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise not_whole(path, f"what it says of the files beside it cannot be read: {error!r}") from error
        return cls(path.with_name(folder), tuple(files))

    def entry(self) -> dict[str, Any]:
        """What the checkpoint stores under `shards`."""
        return {"folder": self.folder.name, "files": {f.name: {"size": f.size, "sha256": f.sha256} for f in self.files}}

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def differ(self) -> str | None:
        """Why they are not what was written, None if they are. Reads all of them."""
        return next((reason for file in self.files if (reason := file.differs(self.folder))), None)

    @cached_property
    def runs(self) -> Mapping[str, list[Run]]:
        """{place: the runs of its tensor}, left on disk until they are read. `Fault` MOD02."""
        runs: dict[str, list[Run]] = {}
        for file in self.files:
            try:
                opened: Any = safe_open(self.folder / file.name, framework="pt")
            except (SafetensorError, OSError) as error:
                raise not_whole(self.folder / file.name, str(error)) from error
            for key in opened.keys():  # noqa: SIM118, it is no mapping
                place, _, start = key.rpartition("@")
                runs.setdefault(place, []).append(Run(int(start), _Stored(opened, key)))
        return runs

    def tensor(self, place: str, like: Tensor) -> LazyShardedTensor:
        """The tensor at `place`, in the shape of `like`, which stands for it. `Fault` MOD02 if it is not all there."""
        tensor = LazyShardedTensor(like.shape, like.dtype, self.runs.get(place, ()))
        if not covers([run.bounds for run in tensor.runs], tensor.numel()):
            raise not_whole(self.folder, f"parts of {place} are missing")
        return tensor


class _Stored:
    """A run in a .safetensors file."""

    def __init__(self, file: Any, key: str) -> None:
        self._slice = file.get_slice(key)

    def __len__(self) -> int:
        return int(self._slice.get_shape()[0])

    def __getitem__(self, where: slice) -> Tensor:
        read: Tensor = self._slice[where]
        return read


def with_tensors(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """`content` of the checkpoint at `path` with its tensors: those beside it as `LazyShardedTensor`, read when needed.

    An ordinary checkpoint is as it was. Raises `Fault` MOD02 if files beside it are missing or are not of it; whether
    they are what was written is for `RankShards.differ` to check.
    """
    shards = RankShards.of(content, path)
    if shards is None:
        return content
    rest = {key: value for key, value in content.items() if key != ENTRY}
    whole: dict[str, Any] = replaced(rest, torch.Tensor.is_meta.__get__, shards.tensor)  # type: ignore[attr-defined]
    return whole


def pour_shard(file: Any, content: Mapping[str, Any]) -> dict[str, list[tuple[int, int]]]:
    """Write the runs of all `LazyShardedTensor`s in `content` that are here; returns {place: (start, end) of each}."""
    runs = {place: tensor.runs for place, tensor in tensors_in(content) if isinstance(tensor, LazyShardedTensor)}
    pieces: dict[str, Any] = {f"{place}@{run.start}": run.elements for place, own in runs.items() for run in own}
    pour_safetensors(file, pieces)
    return {place: [run.bounds for run in own] for place, own in runs.items()}


def without_tensors(content: Mapping[str, Any]) -> dict[str, Any]:
    """`content` with stand-ins on the meta device for `LazyShardedTensor` tensors."""
    stand_in = lambda _, tensor: torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")  # noqa: E731
    small: dict[str, Any] = replaced(content, lambda tensor: isinstance(tensor, LazyShardedTensor), stand_in)
    return small


def tensors_in(value: Any, place: str = "") -> Iterator[tuple[str, Tensor]]:
    """(place, tensor) of all tensors in nested maps and lists; a place is the keys on the way to it."""
    if isinstance(value, Tensor):
        yield place, value
    elif isinstance(value, Mapping | list | tuple):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from tensors_in(item, f"{place}/{key}" if place else str(key))


def replaced(value: Any, which: Callable[[Tensor], bool], by: Callable[[str, Tensor], Tensor], place: str = "") -> Any:
    """Nested maps and lists with other tensors in the place of some."""
    if isinstance(value, Tensor):
        return by(place, value) if which(value) else value
    below = f"{place}/" if place else ""
    if isinstance(value, dict):
        return {key: replaced(item, which, by, f"{below}{key}") for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)([replaced(item, which, by, f"{below}{index}") for index, item in enumerate(value)])
    return value


def _plain(name: str) -> str:
    """A file's name that leads nowhere else."""
    if not PLAIN_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a file")
    return name


def not_whole(path: Path, why: str) -> Fault:
    """MOD02 for the checkpoint at `path`, or what lies beside it."""
    return Fault(
        "MOD02",
        f"{path} is not a whole checkpoint",
        why=why,
        fix="a sharded checkpoint is a .ckpt file and the folder of the same name beside it: copy both",
    )
