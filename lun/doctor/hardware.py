"""Whether torch is built for the hardware that is here, and for the driver that runs it."""

from dataclasses import dataclass
from typing import Literal

from ldm.missing_packages import has_setup, torch_line
from lun.doctor.finding import Finding

Kind = Literal["cuda", "rocm", "cpu"]
APPLE = "with an Apple GPU (MPS), on which no training was ever tried: it has no pinned memory and no float64"
VENDOR = {"cuda": "NVIDIA", "rocm": "AMD"}
# The oldest Linux driver of each CUDA series: NVIDIA, "CUDA Toolkit Release Notes", minor version compatibility.
OLDEST_DRIVER = {11: (450, 80), 12: (525, 60), 13: (580, 65)}


@dataclass(frozen=True)
class Machine:
    """What GPUs the system shows: NVIDIA's driver by its version, AMD's by whether /dev/kfd may be used."""

    nvidia_driver: str | None = None
    kfd: Literal["missing", "denied", "open"] = "missing"

    @property
    def kind(self) -> Kind:
        return "cuda" if self.nvidia_driver else "cpu" if self.kfd == "missing" else "rocm"


@dataclass(frozen=True)
class Gpu:
    """A device as torch sees it; `architecture` is `sm_86` or `gfx1030`."""

    name: str
    architecture: str
    gibibytes: float


@dataclass(frozen=True)
class Torch:
    """What torch says of itself.

    toolkit         version of CUDA or ROCm that it is built with
    gpus            those that it can use; empty where it finds none
    architectures   of GPUs that it has code for; `compute_90` is code for later ones, too
    mps             whether it can use an Apple GPU
    error           why it cannot be imported; the rest is empty then
    """

    version: str = ""
    kind: Kind = "cpu"
    toolkit: str = ""
    gpus: tuple[Gpu, ...] = ()
    architectures: tuple[str, ...] = ()
    mps: bool = False
    error: str = ""


def examine_torch(torch: Torch, machine: Machine) -> list[Finding]:
    """The line for the build, and one for each GPU."""
    if torch.error:
        return [Finding("FAIL", "torch", f"cannot be imported: {torch.error}", torch_line())]
    build = {"cuda": f"CUDA {torch.toolkit}", "rocm": f"ROCm {torch.toolkit}", "cpu": "the CPU"}[torch.kind]
    said = f"{torch.version}, built for {build}"
    if torch.kind == "cpu":
        return [_without_gpu(torch, said, machine)]
    if torch.gpus:
        return [Finding("OK", "torch", said), *(_gpu(gpu, torch) for gpu in torch.gpus)]
    return [_no_gpu_found(torch, said, machine)]


def _without_gpu(torch: Torch, said: str, machine: Machine) -> Finding:
    if machine.kind == "cpu":
        return (
            Finding("WARN", "torch", f"{said}, {APPLE}", "docs/install.md")
            if torch.mps
            else Finding("OK", "torch", f"{said}; no GPU found")
        )
    return Finding("FAIL", "torch", f"{said}, but there is an {VENDOR[machine.kind]} GPU", torch_line(machine.kind))


def _no_gpu_found(torch: Torch, said: str, machine: Machine) -> Finding:
    if machine.kind == "cpu":
        detail = f"{said}, but there is no {VENDOR[torch.kind]} GPU or no driver: trains on the CPU"
        return Finding("WARN", "torch", detail, "install the driver; in a container: docker/start.sh finds the GPU")
    if machine.kind != torch.kind:
        return Finding("FAIL", "torch", f"{said}, but the GPU is {VENDOR[machine.kind]}'s", torch_line(machine.kind))
    if machine.kfd == "denied":
        return Finding("FAIL", "torch", f"{said}, but /dev/kfd may not be used", "sudo usermod -aG video,render $USER")
    return Finding("FAIL", "torch", f"{said}, but it finds no GPU{_driver(torch, machine)}", _fix_of_driver(torch))


def _driver(torch: Torch, machine: Machine) -> str:
    oldest = OLDEST_DRIVER.get(_major(torch.toolkit))
    if machine.nvidia_driver is None or oldest is None:
        return ""
    needed = f"; the driver is {machine.nvidia_driver}, and this CUDA needs {oldest[0]}.{oldest[1]} or newer"
    return needed if numbers(machine.nvidia_driver) < oldest else f" (driver {machine.nvidia_driver})"


def _fix_of_driver(torch: Torch) -> str:
    if torch.kind == "cuda":
        return "update the driver; unset CUDA_VISIBLE_DEVICES"
    return "unset HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HSA_OVERRIDE_GFX_VERSION; then docs/amd.md"


def _gpu(gpu: Gpu, torch: Torch) -> Finding:
    said = f"{gpu.name}, {gpu.gibibytes:.1f} GiB, {gpu.architecture}"
    if any(serves(code, gpu.architecture) for code in torch.architectures):
        return Finding("OK", "GPU", said)
    known = ", ".join(torch.architectures)
    fix = (
        "docs/amd.md, HSA_OVERRIDE_GFX_VERSION"
        if torch.kind == "rocm"
        else "a torch for it: LUN_TORCH_INDEX=... bash scripts/setup.sh --reinstall-torch"
        if has_setup()
        else "a torch for it: python -m pip install torch --index-url ..."
    )
    return Finding("FAIL", "GPU", f"{said}: this torch has no code for it, only for {known}", fix)


def serves(code: str, architecture: str) -> bool:
    """Whether code for one architecture runs on another.

    NVIDIA: within a major version on the same or a later minor one, and `compute_` is compiled for what comes later
    (CUDA C++ Programming Guide, "Binary Compatibility", "PTX Compatibility"). AMD: on itself alone.
    """
    if code.startswith("gfx"):
        return code == architecture
    (major, minor), (own_major, own_minor) = _capability(code), _capability(architecture)
    if code.startswith("compute_"):
        return (major, minor) <= (own_major, own_minor)
    return major == own_major and minor <= own_minor


def _capability(name: str) -> tuple[int, int]:
    digits = "".join(letter for letter in name.partition("_")[2] if letter.isdigit())
    return int(digits[:-1] or 0), int(digits[-1:] or 0)


def numbers(version: str) -> tuple[int, ...]:
    """`580.65.06` as numbers, as far as it is made of them."""
    parts = version.split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def _major(version: str) -> int:
    return next(iter(numbers(version)), 0)
