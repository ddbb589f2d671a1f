"""From a target's import path to the object, with a suggestion where there is none."""

import importlib
import importlib.util
import pkgutil
import traceback
from collections.abc import Callable
from typing import Any

from ldm.admission import LIBRARIES, OPTIMIZERS, PROJECT, admitted, get_obj_from_str, may_import
from ldm.errors import Fault
from ldm.missing_packages import install_line
from ldm.shell import quoted
from lun.config.declared.declarations import declared, declared_module
from lun.config.declared.stand_ins import Unreadable
from lun.config.suggestions import did_you_mean
from lun.config.unfit import require_fit

Find = Callable[[str], Any]


def find_target(path: str, find: Find = get_obj_from_str) -> Any:
    """The class or function at `path`, as `ldm.admission` admits it; `find` is `declared` where nothing is imported.

    Raises `Fault` CFG04 with what was probably meant, CFG08 for a class that is of no use here (`lun.config.unfit`), or
    DEP01 where a package that it needs is missing.
    """
    what = f"cannot load target {path}"
    part = _admitted(path, what, find)
    require_fit(path, part)
    return part


def _admitted(path: str, what: str, find: Find) -> Any:
    try:
        return admitted(path, find)
    except Unreadable:
        raise
    except Fault as fault:
        package = path.partition(".")[0]
        if package in OPTIMIZERS and importlib.util.find_spec(package) is None:
            raise _missing(what, package) from fault
        fix = fault.fix or (_suggestion(path, find) if may_import(path) else _allowing(path))
        raise Fault("CFG04", fault.what, why=fault.why, fix=fix) from fault
    except ModuleNotFoundError as error:
        raise _missing(what, error.name or "") from error
    except Exception as error:  # importing runs the module, which may fail in any way
        raise Fault(
            "CFG04", what, why=f"importing it failed: {type(error).__name__}: {error}{_line_of(error)}"
        ) from error


def _line_of(error: BaseException) -> str:
    """Where in the module it failed; a syntax error says so itself."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return "" if isinstance(error, SyntaxError) else f"  ({last.filename}:{last.lineno})"


def _missing(what: str, module: str) -> Fault:
    why = f"it needs the package {module}, which is not installed"
    return Fault("DEP01", what, why=why, fix=install_line(module.partition(".")[0]))


def _suggestion(path: str, find: Find) -> str:
    """The nearest name in the deepest part of `path` that exists."""
    names = path.split(".")
    for size in range(len(names) - 1, 0, -1):
        parent = ".".join(names[:size])
        try:
            home = find(parent) if size > 1 else _package(parent, find)
        except (Fault, ImportError):
            continue
        known = {name for name in dir(home) if not name.startswith("_")} | set(getattr(home, "__all__", ()))
        known |= {module.name for module in pkgutil.iter_modules(getattr(home, "__path__", []))}
        return did_you_mean(names[size], known, prefix=parent + ".")
    return ""


def _package(name: str, find: Find) -> Any:
    return declared_module(name) if find is declared else importlib.import_module(name)


def _allowing(path: str) -> str:
    near = did_you_mean(path.partition(".")[0], (*PROJECT, *LIBRARIES))
    allow = f"--allow {quoted(path.partition('.')[0])} if you trust that package"
    return f"{near}   Or {allow}" if near else allow
