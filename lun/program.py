"""What the commands are called: `python main.py` and `python -m lun.sample` in a checkout, `lun-train` and `lun-sample`
where they were installed; and where the pages lie there that messages name."""

import re
import shutil
import sys
from pathlib import Path

from ldm.shell import quoted

TRAIN = "main.py"
_COMMAND = re.compile(r"(?<![\w./\\-])python (main\.py|-m lun\.\w+(?:\.\w+)*)")
_PAGE = re.compile(r"(?<![\w./\\-])(?:docs|configs|lun)(?:/\w+)*/[\w-]+\.md\b")
_INSTALLED = re.compile(r"lun-[a-z-]+")
_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parent


def as_started(text: str) -> str:
    """A message whose commands can be pasted where the program was started, named as it was; twice is once."""
    text = with_pages(text, str(_PACKAGE.parent))
    if _INSTALLED.fullmatch(_script().stem):
        return _COMMAND.sub(lambda match: quoted(_beside(_script().parent, installed_name(match[1]))), text)
    return _COMMAND.sub(lambda match: quoted(*_with_python(match[1])), text) if _started_here() else text


def with_pages(text: str, packages: str = "site-packages") -> str:
    """A message with the place of each page of ours: docs/amd.md in a checkout, PACKAGES/lun/docs/amd.md in a wheel."""
    if (_CHECKOUT / TRAIN).is_file():
        return text
    return _PAGE.sub(lambda match: f"{packages}/lun/{match[0].removeprefix('lun/')}", text)


def installed_name(command: str) -> str:
    """The script that a wheel brings for `main.py` or `-m lun.sample`: `lun-train`, `lun-sample`."""
    if command == TRAIN:
        return "lun-train"
    return command.removeprefix("-m ").replace(".", "-").replace("_", "-")


def _script() -> Path:
    return Path(sys.argv[0])


def _started_here() -> bool:
    """Whether this process is one of our commands, and not a program that uses them."""
    return _script().name == TRAIN or any(word.startswith("lun.") for word in sys.orig_argv[1:3])


def _with_python(command: str) -> list[str]:
    if command != TRAIN:
        return [_python(), *command.split()]
    if _script().name == TRAIN:
        return [_python(), sys.argv[0]]
    if (_CHECKOUT / TRAIN).is_file():
        return [_python(), TRAIN]
    return [_beside(Path(sys.executable).parent, installed_name(command))]


def _beside(folder: Path, name: str) -> str:
    """An installed command as it is typed: by its name, or by its path where the name would start another or none."""
    found = shutil.which(name)
    is_on_path = found is not None and Path(found).parent.resolve() == folder.resolve()
    return name if is_on_path or folder == Path() else str(folder / name)


def _python() -> str:
    """This environment's Python, by the word that a person typed for it."""
    first = sys.orig_argv[0] if sys.orig_argv else ""
    return first if Path(first).name.startswith("python") else sys.executable
