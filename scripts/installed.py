"""What an interpreter has, by the standard library: `python`, `torch` or `check VERSION` (scripts/setup.sh)."""

import importlib
import re
import runpy
import sys
from importlib import metadata, util
from pathlib import Path

OLDER_THAN_2_9 = re.compile(r"([01]|2\.[0-8])(\.|$)|2\.9(\.0)?\.?(a|b|rc|dev)")


def python() -> str:
    """Version and path of the interpreter that stands behind this one (a virtual environment's base)."""
    return f"{sys.version_info.major}.{sys.version_info.minor} {getattr(sys, '_base_executable', sys.executable)}"


def torch() -> str:
    """`2.13.0+cpu cpu`: version and kind of a torch that is new enough, else nothing; does not import it."""
    found = util.find_spec("torch")
    if found is None or found.origin is None:
        return ""
    version = metadata.version("torch")
    if OLDER_THAN_2_9.match(version):
        return ""
    built = runpy.run_path(str(Path(found.origin).with_name("version.py")))
    kind = "rocm" if built.get("hip") else "cuda" if built.get("cuda") else "cpu"
    return f"{version} {kind}"


def complaint(torch_version: str) -> str:
    """Why this environment cannot train although pip was content, as printed; empty if it can."""
    try:
        importlib.import_module("torch")
    except (ImportError, OSError, RuntimeError) as error:
        return fault("torch cannot be imported", first_line(error), "bash scripts/setup.sh --reinstall-torch")
    version = metadata.version("torch")
    if version != torch_version:
        return fault(
            f"torch {torch_version} was replaced by {version}",
            "another package in this environment demands that version",
            "bash scripts/setup.sh --reinstall-torch",
        )
    return torchvision_complaint(version)


def torchvision_complaint(torch_version: str) -> str:
    """The fault of a torchvision that is found but breaks on import, and takes transformers with it; else empty."""
    found = util.find_spec("torchvision")
    if found is None or found.origin is None:
        return ""
    try:
        importlib.import_module("torchvision")
    except (ImportError, OSError, RuntimeError) as error:
        own = Path(found.origin).is_relative_to(sys.prefix)
        owner = Path(sys.executable) if own else Path(python().split(" ", 1)[1])
        return fault(
            f"torchvision {metadata.version('torchvision')} does not fit torch {torch_version} and breaks transformers",
            f"{first_line(error)}; this project does not use torchvision",
            f"{owner} -m pip uninstall -y torchvision",
        )
    return ""


def fault(what: str, why: str, fix: str) -> str:
    """One message of the kind DEP01; `ldm.errors` is not asked, because it may not be installed yet."""
    return f"error[DEP01]: {what}\n  why:   {why}\n  fix:   {fix}"


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type where it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def main(argv: list[str]) -> int:
    """Print the answer and return 0, or print a fault to stderr and return 7."""
    if argv[0] == "check":
        if text := complaint(argv[1]):
            print(text, file=sys.stderr)
        return 7 if text else 0
    print({"python": python, "torch": torch}[argv[0]]())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
