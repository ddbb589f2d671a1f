"""How a package that is missing is installed: for the very Python that misses it, in the version that was tested."""

import os
import shlex
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
_DISTRIBUTIONS = {"yaml": "pyyaml", "PIL": "pillow"}  # what is not installed under the name that is imported


def install_line(*packages: str) -> str:
    """The shell command that installs `packages`, given by the names that are imported, where this Python finds them.

    A container cannot be added to: its image holds all extras, and is built anew from outside. Which torch fits the
    machine is known to scripts/setup.sh alone.
    """
    if kind := os.environ.get("LUN_KIND"):
        return f"docker/start.sh {kind} --build   (outside of the container: its image holds all packages)"
    setup = PROJECT / "scripts" / "setup.sh"
    if "torch" in packages and setup.is_file():
        return shlex.join(["bash", str(setup), "--reinstall-torch"])
    pins = PROJECT / "constraints.txt"
    held = ["-c", str(pins)] if pins.is_file() else []
    names = [_DISTRIBUTIONS.get(package, package) for package in packages]
    return shlex.join([sys.executable, "-m", "pip", "install", *held, *names])
