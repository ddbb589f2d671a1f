"""How a package that is missing is installed: for the very Python that misses it, in the version that was tested."""

import os
import shlex
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
TORCH_INDEX = "https://download.pytorch.org/whl"
BUILDS = {"cuda": f"{TORCH_INDEX}/cu130", "rocm": f"{TORCH_INDEX}/rocm7.2"}
"""Where the builds come from that scripts/setup.sh names, by the kind of GPU."""
_DISTRIBUTIONS = {"yaml": "pyyaml", "PIL": "pillow"}  # what is not installed under the name that is imported


def install_line(*packages: str) -> str:
    """The shell command that installs `packages`, given by the names that are imported, where this Python finds them.

    A container cannot be added to: its image holds all extras, and is built anew from outside. Which torch fits the
    machine is known to scripts/setup.sh alone.
    """
    if kind := os.environ.get("LUN_KIND"):
        return _image(kind)
    if "torch" in packages and has_setup():
        return shlex.join(["bash", str(PROJECT / "scripts" / "setup.sh"), "--reinstall-torch"])
    pins = PROJECT / "constraints.txt"
    held = ["-c", str(pins)] if pins.is_file() else []
    names = [_DISTRIBUTIONS.get(package, package) for package in packages]
    return shlex.join([sys.executable, "-m", "pip", "install", *held, *names])


def torch_line(kind: str = "") -> str:
    """The shell command that installs torch anew, without paths of this machine: for GPUs of a kind, `cuda` or `rocm`,
    or for those that are here. It is typed in the checkout's folder, and anywhere where the program is a wheel.
    """
    if own := os.environ.get("LUN_KIND"):
        return _image(kind or own)
    if has_setup():
        return f"{f'LUN_TORCH={kind} ' if kind else ''}bash scripts/setup.sh --reinstall-torch"
    index = ["--index-url", BUILDS[kind]] if kind else []
    return "python -m pip uninstall -y torch && " + shlex.join(["python", "-m", "pip", "install", "torch", *index])


def has_setup() -> bool:
    """Whether this is a checkout, which has scripts/setup.sh, and no installed wheel."""
    return (PROJECT / "scripts" / "setup.sh").is_file()


def _image(kind: str) -> str:
    return f"docker/start.sh {kind} --build   (outside of the container: its image holds all packages)"
