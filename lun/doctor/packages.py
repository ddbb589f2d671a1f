"""Whether the packages that are installed are those that this program was tested with."""

import shlex
import sys
from collections.abc import Mapping, Sequence

from packaging.requirements import Requirement

from ldm.missing_packages import has_setup
from lun.console.environment import how_to_get
from lun.doctor.finding import Finding

SHOWN = 6


def examine_python(version: tuple[int, int], full: str, in_environment: bool) -> Finding:
    """Python 3.11 to 3.13, best in an environment of its own."""
    where = "in a virtual environment" if in_environment else "not in a virtual environment"
    if not (3, 11) <= version <= (3, 13):
        setup = "LUN_PYTHON=python3.11 bash scripts/setup.sh"
        fix = setup if has_setup() else "python3.11 -m venv FOLDER, and install the program there"
        return Finding("FAIL", "Python", f"{full}; 3.11 to 3.13 are supported", fix)
    return Finding("OK", "Python", f"{full}, {where}")


def examine_packages(
    installed: Mapping[str, str], required: Sequence[Requirement], pins: Mapping[str, str]
) -> list[Finding]:
    """One line for what is missing or outside its range, and one for what differs from the tested versions.

    installed   {name: version} of everything that is installed, names normalised
    required    what the program asks for
    pins        {name: version} of constraints.txt; empty where there is none
    """
    return [_needed(installed, required), _tested(installed, pins)]


def _needed(installed: Mapping[str, str], required: Sequence[Requirement]) -> Finding:
    wrong = [_complaint(need, installed.get(need.name)) for need in required if not _satisfied(need, installed)]
    if wrong:
        names = [need.name for need in required if not _satisfied(need, installed)]
        return Finding("FAIL", "packages", "; ".join(wrong), how_to_get(*names))
    return Finding("OK", "packages", f"all {len(required)} that are needed")


def _satisfied(need: Requirement, installed: Mapping[str, str]) -> bool:
    version = installed.get(need.name)
    return version is not None and need.specifier.contains(version, prereleases=True)


def _complaint(need: Requirement, version: str | None) -> str:
    return f"{need.name} is missing" if version is None else f"{need.name} {version} is not {need.specifier}"


def _tested(installed: Mapping[str, str], pins: Mapping[str, str]) -> Finding:
    names = [name for name, pin in pins.items() if installed.get(name, pin) != pin]
    others = [f"{name} {installed[name]} ({pins[name]})" for name in names]
    if not pins:
        return Finding("OK", "versions", "no constraints.txt here to compare with")
    if others:
        more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
        detail = f"not the tested versions: {', '.join(others[:SHOWN])}{more}"
        return Finding("WARN", "versions", detail, how_to_get(*names))
    return Finding("OK", "versions", "as tested")


def examine_torchvision(version: str | None, error: str) -> Finding:
    """Not needed; one that does not fit torch takes transformers' text encoders down with it."""
    if version is None:
        return Finding("OK", "torchvision", "not installed, and not needed")
    if error:
        detail = f"{version} does not fit this torch and breaks transformers: {error}"
        return Finding(
            "FAIL", "torchvision", detail, shlex.join([sys.executable, "-m", "pip", "uninstall", "-y", "torchvision"])
        )
    return Finding("OK", "torchvision", f"{version}, which fits this torch; not needed")


def examine_vocabulary(error: str) -> Finding:
    """CLIP's tokenizer, which without its vocabulary makes one of two tokens and says nothing."""
    if error:
        return Finding(
            "FAIL",
            "tokenizer",
            error,
            how_to_get("--force-reinstall", "transformers", "tokenizers"),
        )
    return Finding("OK", "tokenizer", "CLIP's vocabulary of 49408 tokens, and a known sentence comes out right")


def examine_compiler(works: bool) -> Finding:
    """The C compiler that the EMA's kernel is made with."""
    if works:
        return Finding("OK", "C compiler", "there, and what it makes of the EMA's kernel runs")
    detail = "none that works: averages of weights (EMA) are moved by torch, which takes longer"
    return Finding("WARN", "C compiler", detail, "sudo apt install gcc, or your system's own way")
