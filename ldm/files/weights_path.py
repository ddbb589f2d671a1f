"""What stands at the path that a person gives for weights, known before anything is imported that could read it."""

import os
import re
from pathlib import Path

from ldm.errors import Fault
from ldm.files.sniff import readable_size

ENDINGS = (".safetensors", ".ckpt", ".pt", ".pth", ".bin")
HUB_ID = re.compile(r"([\w.-]+/[\w.-]+?)(?:@([\w.-]+(?:/[\w.-]+)*))?")


def path_of_weights(given: str | Path) -> Path | None:
    """The file or folder at `given`; None for what can only be the name of a model on the hub (org/name[@revision]).

    Raises `Fault` MOD01 for a path at which there is nothing.
    """
    path = Path(given)
    if os.path.exists(path):  # pathlib raises for a name that is too long to be one
        return path
    if not HUB_ID.fullmatch(str(given)) or path.suffix in ENDINGS or os.path.isdir(path.parent):
        raise missing(path)
    return None


def missing(path: Path, what: str = "the weights") -> Fault:
    """MOD01 for a path at which there is nothing to load; says what is near it instead."""
    if path.parts[:1] in (("http:",), ("https:",)):
        why = "weights are read from files, folders and repositories of the hub, not from addresses"
        instead = "download it first and give the file, or give the repository as owner/name"
        return Fault("MOD01", f'cannot find {what} "{path}"', why=why, fix=instead)
    parent = path
    while not os.path.isdir(parent) and parent != parent.parent:
        parent = parent.parent
    entries = sorted(entry for entry in parent.iterdir() if not entry.name.startswith("."))
    files = [entry for entry in entries if entry.suffix in ENDINGS]
    folders = [f"{entry.name}/" for entry in entries if entry.is_dir()]
    why = "it is a folder" if os.path.isdir(path) else f"no such file; the nearest folder that exists is {parent}"
    if files:
        fix = "available here: " + ", ".join(f"{file} ({readable_size(file.stat().st_size)})" for file in files[:5])
    else:
        fix = f"{parent} has no weights file; it holds " + (" ".join(folders[:8]) or "no folders")
    return Fault("MOD01", f'cannot find {what} "{path}"', why=why, fix=fix)
