"""Looking at this machine: the only part of the doctor that touches anything."""

import contextlib
import getpass
import os
import platform
import shutil
import socket
import subprocess
import sys
import tomllib
from importlib import import_module, metadata, util
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ldm.errors import Fault
from ldm.operating_system import memory_bytes
from lun.doctor.hardware import Gpu, Kind, Machine, Torch

ROOT = Path(__file__).resolve().parents[2]
SHARED_MEMORY = Path("/dev/shm")
KFD = Path("/dev/kfd")


def system() -> str:
    """Operating system, processor, cores and memory."""
    size = memory_bytes()
    memory = "" if size is None else f", {size / 2**30:.0f} GiB of memory"
    return f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores{memory}"


def machine() -> Machine:
    """The GPUs that the system shows, without torch."""
    return Machine(nvidia_driver(), kfd())


def nvidia_driver() -> str | None:
    """The version that nvidia-smi prints; None where it is missing or finds nothing."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return said.strip().split("\n")[0] or None


def kfd(device: Path = KFD) -> Literal["missing", "denied", "open"]:
    """Whether AMD's compute device is there and may be used."""
    if not device.exists():
        return "missing"
    return "open" if os.access(device, os.R_OK | os.W_OK) else "denied"


def torch() -> Torch:
    """What torch says of itself; imports it."""
    try:
        library = import_module("torch")
    except (ImportError, OSError, RuntimeError) as error:
        return Torch(error=first_line(error))
    version = library.version
    kind: Kind = "rocm" if version.hip else "cuda" if version.cuda else "cpu"
    gpus = tuple(_gpu(library, index, kind) for index in range(library.cuda.device_count()))
    architectures = tuple(library.cuda.get_arch_list()) if gpus else ()
    mps = library.backends.mps.is_available()
    return Torch(library.__version__, kind, version.hip or version.cuda or "", gpus, architectures, mps)


def _gpu(library: object, index: int, kind: Kind) -> Gpu:
    facts = library.cuda.get_device_properties(index)  # type: ignore[attr-defined]
    architecture = facts.gcnArchName.partition(":")[0] if kind == "rocm" else f"sm_{facts.major}{facts.minor}"
    return Gpu(facts.name, architecture, facts.total_memory / 2**30)


def installed() -> dict[str, str]:
    """{normalised name: version} of everything that Python finds."""
    return {canonicalize_name(package.name): package.version for package in metadata.distributions() if package.name}


def required() -> list[Requirement]:
    """What this program asks for: of its pyproject.toml in a checkout, else of its wheel."""
    project = ROOT / "pyproject.toml"
    if project.is_file():
        lines = tomllib.loads(project.read_text("utf-8"))["project"]["dependencies"]
    else:
        lines = metadata.requires("lun") or []
    needs = [Requirement(line) for line in lines]
    return [need for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]


def pins() -> dict[str, str]:
    """{name: version} of constraints.txt; empty where the program is not a checkout."""
    path = ROOT / "constraints.txt"
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    return dict(line.split("==") for line in lines if "==" in line)


def torchvision() -> tuple[str | None, str]:
    """(version or None, why it cannot be imported)."""
    if util.find_spec("torchvision") is None:
        return None, ""
    try:
        import_module("torchvision")
    except (ImportError, OSError, RuntimeError) as error:
        return metadata.version("torchvision"), first_line(error)
    return metadata.version("torchvision"), ""


def compiled() -> bool:
    """Whether the EMA's kernel can be compiled and loaded here; imports torch."""
    try:
        return import_module("ldm.ema.compiled").kernel() is not None
    except (ImportError, OSError, Fault):
        return False


def vocabulary() -> str:
    """What is wrong with the tokenizer that ships with the program; empty if nothing is."""
    try:
        tokenizer = import_module("ldm.modules.encoders.tokenizer")
        made = tokenizer.clip_tokenizer(tokenizer.BUILT_IN, 77)
        ids = made(tokenizer.PROBE).input_ids
    except (ImportError, OSError, RuntimeError, Fault) as error:
        return first_line(error)
    if len(made) != tokenizer.SIZE:
        return f"it has {len(made)} tokens instead of {tokenizer.SIZE}"
    return "" if ids == tokenizer.PROBE_TOKENS else f"{tokenizer.PROBE!r} gives {ids}"


def shared_memory(place: Path = SHARED_MEMORY) -> int | None:
    """Bytes in all; None where there is none."""
    return shutil.disk_usage(place).total if place.is_dir() else None


def existing(path: Path) -> Path:
    """The path itself, or the nearest folder above it that is there."""
    return next(folder for folder in (path, *path.parents) if folder.exists())


def free(path: Path) -> int:
    """Bytes that are free where `path` is or would be."""
    return shutil.disk_usage(existing(path.absolute())).free


def writable(path: Path) -> bool:
    """Whether `path` could be written to, or made."""
    return os.access(existing(path.absolute()), os.W_OK | os.X_OK)


def in_environment() -> bool:
    return sys.prefix != sys.base_prefix


def own_names() -> list[str]:
    """What must not show in a report: who is logged in and what the machine is called; root is nobody's name."""
    names = [socket.gethostname(), Path.home().name]
    with contextlib.suppress(KeyError, OSError):  # a user without a name, as in a container
        names.append(getpass.getuser())
    return [name for name in names if len(name) > 2 and name not in ("root", "localhost", "lun")]


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type where it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]
