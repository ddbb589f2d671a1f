"""Files that run code while they are read, for people who trust whoever made them."""

import logging
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.files.read import Content, read_content
from ldm.files.sniff import reading, sniff

log = logging.getLogger(__name__)


def read_trusted(file: Path) -> Content:
    """The tensors of a file that may run code while it is read, because the person asked for it."""
    try:
        return read_content(file)
    except Fault as fault:
        if fault.id != "MOD05":
            raise
        log.warning("%s runs code while it is read, as --trust-pickle allows", file)
    content = _unpickled(file)
    if isinstance(content, nn.Module):
        return Content(dict(content.state_dict()), {})
    named = content.get("state_dict", content) if isinstance(content, Mapping) else {}
    named = named.state_dict() if isinstance(named, nn.Module) else named
    state = {str(key): tensor for key, value in named.items() if (tensor := _tensor(value)) is not None}
    if not state:
        raise Fault("MOD02", f"{file} is not a checkpoint: it holds no named tensors")
    return Content(state, {key: value for key, value in content.items() if key != "state_dict"})


def _unpickled(file: Path) -> Any:
    with reading(file):
        try:
            if _is_of_torch(file):
                return torch.load(file, map_location="cpu", weights_only=False)
            with file.open("rb") as stream:
                return pickle.load(stream)
        except (ModuleNotFoundError, AttributeError) as error:
            why = f"its code is not on this machine: {error}"
            what = f"{file} could not be opened even on trust"
            raise Fault("MOD05", what, why=why, fix="install it first") from error


def _is_of_torch(file: Path) -> bool:
    """Whether torch.save wrote a file; asking torch.load would run the code of one that it did not write."""
    try:
        sniff(file)
    except Fault:
        return False
    return True


def _tensor(value: object) -> Tensor | None:
    if isinstance(value, Tensor):
        return value.detach()
    return torch.from_numpy(value) if type(value).__module__ == "numpy" and hasattr(value, "shape") else None
