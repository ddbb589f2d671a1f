"""Checkpoint files that are whole or absent: written beside their place, flushed to disk, moved over the old one."""

import errno
import logging
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast

import torch

from ldm.errors import Fault
from ldm.files.rank_shards import RankShards, with_tensors
from ldm.files.read import read_torch
from ldm.files.replacing import flush_file, is_leftover, move_into_place, unfinished
from ldm.files.sniff import require_undamaged
from ldm.lightning_classes import TorchCheckpointIO
from lun.checkpoints.background import Background
from lun.checkpoints.checkpoint_files import keep, let_go, remove_unnamed, set_aside
from lun.checkpoints.manifest import HashedFile, Manifest, manifest_path
from lun.checkpoints.memory_estimate import amount
from lun.checkpoints.sharded import own_rank, shards_beside

log = logging.getLogger(__name__)


class AtomicIO(TorchCheckpointIO):
    """Writes checkpoints without a moment at which the old file is gone and the new one not there.

    Beside each file its manifest is left (size, hash, step). The first file of a process is opened again before it
    takes its place, because a checkpoint that holds more than tensors and plain values can be saved for days and never
    be resumed.

    written   the last file that was written
    background  for files that are written while training goes on
    expected  bytes that have to be free for the next one: those of the last one, an estimate before; 0 asks for none
    """

    def __init__(self) -> None:
        super().__init__()
        self.written: Path | None = None
        self.expected = 0
        self.background = Background()
        self._replaced: frozenset[Path] = frozenset()

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write `checkpoint` to `path`; on any error the old file stays as it was and nothing is left behind.

        Raises OSError or RuntimeError (torch's zip writer hides a full disk in one) if the file cannot be written, and
        `Fault` RES04 if it could not be read again.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._require_space(path.parent)
        self._replace(checkpoint, path)
        remove_unnamed(path.parent, of=path.name)

    def save_shards(self, checkpoint: dict[str, Any], path: str | os.PathLike[str]) -> None:
        """As `save_checkpoint`, called by all ranks, each with what it holds (`ldm.files.lazy_tensor`). Collective.

        Each writes its own part into a folder beside `path`; the file that names the folder is moved to its place when
        all of them are on disk.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        with shards_beside(path, checkpoint, lambda: self._require_space(path.parent)) as small:
            if own_rank() == 0:
                self._replace(small, path)
        if own_rank() == 0:
            remove_unnamed(path.parent, of=path.name)

    def _replace(self, checkpoint: dict[str, Any], path: Path) -> None:
        moment = moment_of(checkpoint)
        with unfinished(path) as temporary:
            with open(temporary, "wb") as file:
                hashed = HashedFile(file)
                torch.save(checkpoint, cast(IO[bytes], hashed))
                flush_file(file)
            if self.written is None:
                _prove(temporary)
            if not self._keep_later(path, moment):
                let_go(path)
            # At no moment does a manifest speak of another file than the one beside it.
            manifest_path(path).unlink(missing_ok=True)
            move_into_place(temporary, path)
        shards = RankShards.of(checkpoint, path)
        if shards is not None:
            keep(shards)
        self.written, self.expected = path, hashed.size + (shards.size if shards else 0)
        with suppress(OSError):  # the file is whole; without a manifest its own checksums are compared
            hashed.manifest(*moment).write(path)

    def _keep_later(self, path: Path, moment: tuple[int | None, int | None]) -> bool:
        """Before this process replaces a file for the first time: whether it was kept under another name."""
        first, self._replaced = path not in self._replaced, self._replaced | {path}
        if not first or not path.is_file():
            return False
        manifest = Manifest.read(path)
        held = (manifest.step, manifest.attempt) if manifest else moment_of(peek(path))
        if None in (*held, *moment):
            return False
        return set_aside(path, cast(tuple[int, int], held), *cast(tuple[int, int], moment)) is not None

    def _require_space(self, directory: Path) -> None:
        """Fill no disk for a file that cannot be finished: other programs need the rest of it."""
        room = shutil.disk_usage(directory).free
        if room < self.expected:
            raise OSError(errno.ENOSPC, f"a checkpoint takes {amount(self.expected)}, {amount(room)} are free")

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Callable[..., Any] | None = lambda storage, _: storage,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Read a checkpoint of tensors and plain values; optimizer and schedule of another program start afresh.

        Those of 2022 are stored by index, in the order of CompVis' parameters, which is not that of ours. Tensors that
        lie beside the file are read when they are needed.
        """
        checkpoint = with_tensors(read_torch(Path(path), mapped=False), Path(path))
        states = checkpoint.get("optimizer_states")
        if states and "lun" not in checkpoint:
            log.warning(
                "%s holds the optimizer of another program, in the order of its own parameters:"
                " optimizer and schedule start afresh",
                path,
            )
        elif not states:
            log.warning("%s has no optimizer state: optimizer and schedule start afresh", path)
        return checkpoint if "lun" in checkpoint else _foreign(checkpoint)


def moment_of(checkpoint: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """(step, attempt) at which a checkpoint was written; None where it does not say."""
    ours = checkpoint.get("lun") or {}
    return ours.get("position", {}).get("step"), ours.get("attempt")


def _foreign(checkpoint: Mapping[str, Any]) -> dict[str, Any]:
    """What of another program's checkpoint means the same here.

    Lightning restores nothing, not even through callbacks, where it does not find its own lists.
    """
    import lightning

    kept = {name: checkpoint[name] for name in ("state_dict", "global_step", "epoch") if name in checkpoint}
    ours = {"pytorch-lightning_version": lightning.__version__}
    return {"epoch": 0, "callbacks": {}, "optimizer_states": [], "lr_schedulers": []} | kept | ours


def unreadable(path: Path) -> str | None:
    """Why a checkpoint cannot be trusted, or None if it can.

    torch.load does not look at checksums: a flipped bit or a zeroed block loads silently. So the file is compared with
    its manifest, and without one with the checksums of the zip file that it is.
    """
    return _looked_at(path)[0]


def unfit(path: Path) -> str | None:
    """Why a run cannot go on from a checkpoint, or None if it can: what `unreadable` says, or which weights hold NaN.

    Infinite values are no such sign: masks of text encoders hold them.
    """
    reason, content = _looked_at(path)
    if reason:
        return reason
    for name, tensor in with_tensors(content, path).get("state_dict", {}).items():
        if torch.is_tensor(tensor) and bool(tensor.isnan().any()):
            return f"its weights {name} hold NaN"
    return None


def _looked_at(path: Path) -> tuple[str | None, dict[str, Any]]:
    """What is wrong with a checkpoint and its shards, and what it holds: read once for both."""
    try:
        content = _read_undamaged(path)
        shards = RankShards.of(content, path)
        return (None if shards is None else shards.differ()), content
    except (Fault, OSError, ValueError) as error:
        return _reason(error), {}


def _read_undamaged(path: Path) -> dict[str, Any]:
    """A checkpoint without what lies beside it; `Fault`, OSError or ValueError if it is damaged."""
    if manifest := Manifest.read(path):
        if reason := manifest.differs(path):
            raise ValueError(reason)
    else:
        require_undamaged(path)
    content: dict[str, Any] = read_torch(path)
    return content


def _reason(error: Exception) -> str:
    text = str(error)
    if isinstance(error, Fault):
        text = error.what if error.id == "MOD05" else error.why
    return text.splitlines()[0] if text else type(error).__name__


def peek(path: Path) -> dict[str, Any]:
    """What a checkpoint holds, its tensors left on disk until they are looked at; empty if it cannot be opened.

    Tensors that lie in files beside it are on the meta device: `ldm.files.rank_shards.with_tensors` finds them.
    """
    try:
        state = read_torch(path)
    except Fault:  # whoever needs the reason asks `unreadable`
        return {}
    return state if isinstance(state, dict) else {}


def clean_leftovers(directory: Path) -> None:
    """Remove half-written files whose writer is dead, and shards that no checkpoint names.

    One with our own number is of an earlier process.
    """
    for path in [*directory.rglob(".*.tmp-*")]:
        if is_leftover(path):
            log.info("removing %s, left by a killed process", path)
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
    for folder in {path.parent for path in directory.rglob("*.ckpt.shards-*")}:
        remove_unnamed(folder)


def _prove(path: Path) -> None:
    try:
        _read_undamaged(path)
    except (Fault, OSError, ValueError) as error:
        raise Fault(
            "RES04",
            "checkpoints of this run could not be resumed",
            why=_reason(error),
            fix="let models, data and callbacks put only tensors and plain Python values into their state",
        ) from error
