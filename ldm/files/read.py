"""Tensors out of a weights file, without ever running code from it."""

import hashlib
import io
import logging
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor
from torch.serialization import get_unsafe_globals_in_checkpoint, safe_globals

from ldm.errors import Fault
from ldm.files.lazy_tensor import LazyShardedTensor
from ldm.files.notes import require_plausible
from ldm.files.pickles import require_bounded
from ldm.files.rank_shards import RankShards, not_whole, with_tensors
from ldm.files.sniff import PICKLE, bare_pickle, readable_size, reading, require_undamaged, sniff
from ldm.files.state import State
from ldm.files.weights_path import missing
from ldm.files.write import HASH
from ldm.plain import require_ordinary

log = logging.getLogger(__name__)

SMALL = 1 << 20  # bytes below which nobody minds a number that is repeated
LEGACY_PICKLES = 5  # mark, version, machine, content, names of the storages
FRAMEWORKS = ("pytorch_lightning.", "lightning.")
WRAPPERS = re.compile(r"^(?:module\.)+|_orig_mod\.")


class Unread:
    """Stands for an object of a training framework in an old checkpoint: built without its code, holding nothing."""

    def __init__(self, *args: object, **kwargs: object) -> None: ...

    def __setstate__(self, state: object) -> None: ...


@dataclass(frozen=True)
class Content:
    """What a weights file holds: its tensors by name, and facts beside them.

    facts  the text of a .safetensors header, or what a training checkpoint stores beside `state_dict`
    """

    state: State
    facts: Mapping[str, Any]


def read_state_dict(path: str | Path) -> State:
    """The tensors of a .safetensors or torch file on the CPU, out of a training checkpoint's `state_dict` too.

    Names that DistributedDataParallel or torch.compile put around a module are taken off. The tensors may be views of
    the file: copy before it is replaced, never write into them.
    Raises `Fault` MOD01 (no such file), MOD02 (not a whole weights file, or one whose checksums say that it was
    damaged) or MOD05 (holds objects that need code). A .safetensors file has no checksums; a hash that its header may
    hold is compared, with a warning where it differs.
    """
    return read_content(path).state


def read_content(path: str | Path) -> Content:
    """Tensors as `read_state_dict` gives them, with the facts that the file stores beside them.

    Those that a sharded checkpoint keeps in files beside it are read when they are needed, one at a time.
    """
    path = Path(path)
    if path.is_file():
        kind = sniff(path)
        if kind == "zip":
            require_undamaged(path)
        elif kind == "safetensors":
            warn_of_another_hash(path)
    return _unchecked(path, _with_undamaged_shards)


def _unchecked(path: Path, completed: Callable[[Any, Path], Any]) -> Content:
    if not path.is_file():
        raise missing(path)
    if sniff(path) == "safetensors":
        with _safetensors_faults(path):
            return Content(_named(load_file(path), path), _header_text(path))
    content = completed(read_torch(path), path)
    content = content if isinstance(content, Mapping) else {}
    wrapped = content.get("state_dict")
    named = wrapped if isinstance(wrapped, Mapping) else content
    return Content(_named(named, path), {key: value for key, value in content.items() if value is not named})


def read_outline(path: str | Path) -> Content:
    """The same without reading weights: every tensor is on the meta device. Costs well under a second."""
    path = Path(path)
    if path.is_file() and sniff(path) == "safetensors":
        with _safetensors_faults(path), safe_open(path, framework="np") as file:  # torch would map all of it at once
            shapes = {key: file.get_slice(key).get_shape() for key in file.keys()}  # noqa: SIM118, it is no mapping
            named = {key: torch.empty(shape, device="meta") for key, shape in shapes.items()}
            return Content(_named(named, path), _header_text(path))
    content = _unchecked(path, lambda content, _: content)
    return Content({key: value.to("meta") for key, value in content.state.items()}, content.facts)


def _with_undamaged_shards(content: Any, path: Path) -> Any:
    shards = RankShards.of(content, path)
    if shards is not None and (reason := shards.differ()):
        raise not_whole(path, reason)
    return content if shards is None else with_tensors(content, path)


@contextmanager
def _safetensors_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except SafetensorError as error:
        raise Fault("MOD02", f"{path} is not a whole checkpoint", why=str(error)) from error
    except RuntimeError as error:
        if "mmap" not in str(error):
            raise
        why = f"it has {readable_size(path.stat().st_size)}, more than memory and swap together"
        raise Fault("MOD02", f"{path} does not fit into memory", why=why, fix="add swap, or memory") from error


def warn_of_another_hash(path: Path) -> None:
    """Warn where a .safetensors file does not have the hash that its own header holds, if it holds one.

    No more than a warning: a program that edits weights may keep the header's text. Reads all of the file.
    """
    recorded = str(_header_text(path).get(HASH, "")).removeprefix("0x")
    if recorded and (computed := hash_of_tensors(path)) != recorded:
        fault = Fault(
            "MOD08",
            f"{path} does not hold the weights that its header speaks of",
            why=f"their sha256 begins with {computed[:12]}, in the header it is {recorded[:12]}: the file was damaged,"
            " or edited by a program that left the old hash",
            fix="compare it with where it came from, or download it again",
        )
        log.warning(fault.render("warning"))


def hash_of_tensors(path: Path) -> str:
    """sha256 of all that follows the header of a .safetensors file, as `write_safetensors` stores it there.

    Raises OSError, and ValueError for what is no ordinary file.
    """
    require_ordinary(path)
    with path.open("rb") as file:
        file.seek(8 + int.from_bytes(file.read(8), "little"))
        return hashlib.file_digest(file, "sha256").hexdigest()


def _named(content: Mapping[Any, Any], path: Path) -> State:
    state = {WRAPPERS.sub("", str(key)): value for key, value in content.items() if isinstance(value, Tensor)}
    if not state:
        raise Fault("MOD02", f"{path} is not a checkpoint: it holds no named tensors", why=f"found {_outline(content)}")
    if unreal := next((key for key, value in state.items() if not _is_stored(value)), None):
        why = f"{unreal} is larger than what is stored of it, or of a kind that is no plain table of numbers"
        raise Fault("MOD02", f"{path} is not a whole checkpoint", why=why)
    return state


def _is_stored(tensor: Tensor) -> bool:
    """Whether a tensor has its numbers, each in a place of its own: a stride of 0 makes terabytes out of one number."""
    if tensor.is_meta or isinstance(tensor, LazyShardedTensor):
        return True
    if tensor.layout != torch.strided or tensor.is_quantized:
        return False
    return tensor.numel() * tensor.element_size() <= max(tensor.untyped_storage().nbytes(), SMALL)


def _header_text(path: Path) -> Mapping[str, str]:
    require_ordinary(path)
    with _safetensors_faults(path), safe_open(path, framework="np") as file:
        return file.metadata() or {}


def read_torch(path: Path, mapped: bool = True) -> Any:
    """All that a torch file holds, on the CPU, without running code: what frameworks put in comes back empty.

    mapped  leave the tensors of a zip file on disk until they are looked at
    Raises `Fault` MOD02 (not a whole file) or MOD05 (holds objects that need code).
    """
    with reading(path):
        zipped = zipfile.is_zipfile(path)
        try:
            with safe_globals(_framework_stubs(path) if zipped else []):
                _require_bounded(path, zipped)
                content = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped and mapped)
        except UnpicklingError as error:
            names = re.findall(r"GLOBAL (\S+)", str(error)) or ["of an unknown kind"]
            raise bare_pickle(path, f"Python objects besides weights ({', '.join(names[:3])})") from error
        require_plausible(content)
        return content


def _require_bounded(path: Path, zipped: bool) -> None:
    """Raise ValueError for a file whose pickles would grow without end while they are read."""
    if not zipped:
        with path.open("rb") as file:
            for _ in range(LEGACY_PICKLES):
                require_bounded(file)
        return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if f"/{name}".lower().endswith(PICKLE):  # torch looks its parts up without regard to case
                with archive.open(name) as part:
                    require_bounded(io.BufferedReader(cast(zipfile.ZipExtFile, part)))


def _framework_stubs(path: Path) -> list[Any]:
    """Stand-ins for Lightning's classes, which checkpoints of 2022 name as keys of their callbacks' state."""
    names = get_unsafe_globals_in_checkpoint(path)
    foreign = [name for name in names if not name.startswith(FRAMEWORKS)]
    if foreign:
        raise bare_pickle(path, f"Python objects besides weights ({', '.join(sorted(foreign)[:3])})")
    return [(Unread, name) for name in names]


def _outline(content: Mapping[Any, Any]) -> str:
    return ", ".join(map(str, list(content)[:5])) or "nothing"
