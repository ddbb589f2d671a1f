"""Saving where each rank writes the weights that it holds: a folder of their files beside a small checkpoint."""

import logging
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from torch import distributed

from ldm.errors import Fault
from ldm.files.lazy_tensor import LazyShardedTensor, covers
from ldm.files.rank_shards import ENTRY, RankShards, ShardFile, pour_shard, tensors_in, without_tensors
from ldm.files.replacing import flush_directory, flush_file, move_into_place, temporary_name
from lun.checkpoints.checkpoint_files import remove_unnamed
from lun.checkpoints.manifest import HashedFile

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written:
    """What became of one rank's file: it is there with the elements of `places`, or `error` says why it is not."""

    file: ShardFile | None = None
    places: Mapping[str, list[tuple[int, int]]] = field(default_factory=dict)
    error: str | None = None


@contextmanager
def shards_beside(path: Path, content: dict[str, Any], require: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """Write all ranks' runs of `LazyShardedTensor` tensors in `content` into a new folder beside `path`; collective.

    Within it every file is whole and on disk, and what the block gets is the checkpoint without these tensors, to be
    written by rank 0. If it is not, or a rank cannot write its file, the folder is gone afterwards and the old one
    was not touched. `require` is asked on rank 0 and raises OSError where there is no room.
    Raises OSError on all ranks if one of them cannot write, `Fault` RES04 if elements are missing.
    """
    folder, unfinished = _agreed_folder(path, require)
    with ExitStack() as undo:
        undo.callback(_clear, path, unfinished)
        ranks = _gathered(_write_own(unfinished / f"rank-{own_rank():05d}.safetensors", content))
        if errors := [written.error for written in ranks if written.error]:
            raise OSError(errors[0])
        _require_all(content, ranks)
        if own_rank() == 0:
            move_into_place(unfinished, folder)
        shards = RankShards(folder, tuple(written.file for written in ranks if written.file))
        yield without_tensors(content) | {ENTRY: shards.entry()}
        undo.pop_all()


def _clear(path: Path, unfinished: Path) -> None:
    """Remove what a save that failed has left on rank 0."""
    if own_rank() == 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        # Not simply the new one: where the error came after the move, the checkpoint names it already.
        remove_unnamed(path.parent, of=path.name)


def own_rank() -> int:
    """This rank; 0 without a group."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def _agreed_folder(path: Path, require: Callable[[], None]) -> tuple[Path, Path]:
    """A new folder, and the one that rank 0 made to become it; OSError on all ranks where it could not."""
    shared: list[Any] = [None, None, None]
    if own_rank() == 0:
        folder = path.with_name(f"{path.name}.shards-{secrets.token_hex(4)}")
        unfinished = temporary_name(folder)
        try:
            require()
            unfinished.mkdir()
            shared = [folder.name, unfinished.name, None]
        except OSError as error:
            shared[2] = error.strerror or str(error)
    if _several():
        distributed.broadcast_object_list(shared)
    if shared[2]:
        raise OSError(shared[2])
    return path.with_name(shared[0]), path.with_name(shared[1])


def _write_own(path: Path, content: Mapping[str, Any]) -> Written:
    """This rank's file; an error is for all ranks to hear of, so it is not raised."""
    try:
        path.parent.mkdir(exist_ok=True)  # a file system shared by machines may not show it yet
        with open(path, "wb") as file:
            hashed = HashedFile(file)
            places = pour_shard(hashed, content)
            flush_file(file)
        flush_directory(path.parent)
    except OSError as error:
        return Written(error=error.strerror or str(error))
    except Exception as error:  # the other ranks wait for an answer, whatever it is
        log.exception("could not write %s", path)
        return Written(error=f"{type(error).__name__}: {error}")
    return Written(ShardFile(path.name, hashed.size, hashed.sha256), places)


def _require_all(content: Mapping[str, Any], ranks: list[Written]) -> None:
    """No checkpoint takes another's place while elements are missing from it."""
    held: dict[str, list[tuple[int, int]]] = {}
    for written in ranks:
        for place, bounds in written.places.items():
            held.setdefault(place, []).extend(bounds)
    spread = {place: tensor for place, tensor in tensors_in(content) if isinstance(tensor, LazyShardedTensor)}
    for place, tensor in spread.items():
        if not covers(sorted(held.get(place, ())), tensor.numel()):
            raise Fault(
                "RES04",
                "checkpoints of this run could not be resumed",
                why=f"the ranks together do not hold each element of {place} once",
                fix="lightning.trainer.strategy.params.save_distributed_checkpoint=false",
            )


def _several() -> bool:
    return distributed.is_initialized() and distributed.get_world_size() > 1


def _gathered(own: Written) -> list[Written]:
    if not _several():
        return [own]
    ranks: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(ranks, own)
    return cast(list[Written], ranks)
