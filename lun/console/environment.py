"""The Python that has what the program needs: which it is, and how a package comes into it.

This file is read by Pythons that the program does not support and that have no packages, so it asks for neither.
"""

import os
import shlex
import sys
from pathlib import Path

from ldm.errors import Fault
from ldm.missing_packages import PROJECT, install_line

SETUP = PROJECT / "scripts" / "setup.sh"
OURS = ("", "ldm", "lun", "main")


def missing(module: str) -> Fault:
    """DEP01: a package that every installation brings is not in this Python."""
    package = module.partition(".")[0]
    what = f"the package {package} is missing"
    return Fault("DEP01", what, why=f"{sys.executable} has it not", fix=how_to_get(package))


def how_to_get(*packages: str) -> str:
    """A shell line: the installation of `packages`, or the same command again with the Python that has them.

    The latter wherever the Python that runs is not that of the project's environment.
    """
    alone = "LUN_KIND" in os.environ or not SETUP.is_file()  # a container, or an installed wheel
    if alone or Path(sys.prefix) == _environment():
        return install_line(*packages)
    return again_with_the_environment()


def _environment() -> Path:
    return Path(os.environ.get("LUN_VENV") or PROJECT / ".venv").absolute()


def again_with_the_environment() -> str:
    """A shell line: the same command with the Python of the project's environment, which is made first if need be."""
    folder = _short(_environment())
    again = shlex.join([f"{folder}/bin/python", *_words()])
    if (_environment() / "bin" / "python").exists():
        activate = shlex.join(["source", f"{folder}/bin/activate"])
        return f"{again}\nor once in each shell: {activate}"
    return shlex.join(["bash", _short(SETUP)]) + f" && {again}"


def _short(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _words() -> "list[str]":
    """What this process was given after the name of its Python, `-m` included, which `sys.argv` does not keep."""
    if words := getattr(sys, "orig_argv", []):  # since Python 3.10
        return list(words[1:])
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return [*(["-m", spec.parent] if spec else sys.argv[:1]), *sys.argv[1:]]
