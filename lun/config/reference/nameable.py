"""Every part that a configuration may name, found in the sources: by its definition, with all paths that lead to it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ldm.admission import DRAWER, PROJECT, definition, refusal
from ldm.errors import Fault
from lun.config.declared.class_body import last_name
from lun.config.declared.declarations import declared, declared_module
from lun.config.declared.module_source import ModuleText, module_file, module_text
from lun.config.declared.stand_ins import Unreadable
from lun.config.unfit import require_fit

LIBRARIES = (
    "torch.optim",
    "torch.optim.lr_scheduler",
    "lightning.pytorch.callbacks",
    "lightning.pytorch.loggers",
)
"""Packages of libraries of which a run takes whole kinds."""
FURTHER = ("torch.nn.Identity",)


@dataclass(frozen=True)
class NameablePart:
    """A class or function that YAML can name. `paths`: the one to write first, then others that mean the same."""

    paths: tuple[str, ...]
    target: Any

    @property
    def path(self) -> str:
        return self.paths[0]


@functools.cache
def parts_of_ours() -> tuple[NameablePart, ...]:
    """All of this project's own, by path."""
    found: dict[str, tuple[Any, list[str]]] = {}
    for path in (*_defined(), *_offered()):
        target = _fitting(path)
        if target is not None:
            found.setdefault(definition(target), (target, []))[1].append(path)
    parts = (NameablePart(tuple(sorted(set(paths), key=_plainest(target))), target) for target, paths in found.values())
    return tuple(sorted(parts, key=lambda part: part.path))


@functools.cache
def parts_of_libraries() -> tuple[NameablePart, ...]:
    """Optimizers, schedules, callbacks and loggers of libraries that a run can use."""
    homes = ((home, declared_module(home)) for home in LIBRARIES)
    paths = [f"{home}.{name}" for home, module in homes for name in dir(module) if name[0].isupper()]
    found = ((path, _fitting(path)) for path in (*paths, *FURTHER))
    return tuple(NameablePart((path,), target) for path, target in found if target is not None)


def parts() -> Mapping[str, NameablePart]:
    """{path: part}, libraries' last."""
    return {part.path: part for part in (*parts_of_ours(), *parts_of_libraries())}


def _plainest(target: Any) -> Callable[[str], tuple[int, bool, str]]:
    """The order of paths to a part: a short one first, and one that a package offers before where the part stands."""
    home = definition(target)
    return lambda path: (path.count("."), path == home, path)


def _fitting(path: str) -> Any:
    """The part at a path, or None where a configuration may not name it, or only importing it would show."""
    try:
        target = declared(path)
        if refusal(target) is not None:
            return None
        require_fit(path, target)
    except Unreadable:
        return None
    except Fault as fault:
        return target if fault.id == "DEP01" else None
    return target


def _defined() -> Iterator[str]:
    for text in _modules():
        yield from (f"{text.name}.{name}" for name, one in text.names.items() if _may_be_a_part(one))


def _offered() -> Iterator[str]:
    """Names that a module offers beside where they stand: in its `__all__`, or imported when they are asked for."""
    for text in _modules():
        listed = text.names.get("__all__")
        value = getattr(listed, "value", None)
        names = ast.literal_eval(value) if isinstance(value, ast.List | ast.Tuple) else []
        imported = {name for name, one in text.names.items() if isinstance(one, ast.ImportFrom)}
        yield from (f"{text.name}.{name}" for name in (*text.lazy, *(one for one in names if one in imported)))


@functools.cache
def _modules() -> tuple[ModuleText, ...]:
    return tuple(text for name in _names_of_modules() if (text := module_text(name)) is not None)


def _names_of_modules() -> Iterator[str]:
    for package in PROJECT:
        top = module_file(package)
        assert top is not None
        for file in sorted(top.parent.rglob("*.py")):
            words = file.relative_to(top.parent.parent).with_suffix("").parts
            name = ".".join(words[:-1] if words[-1] == "__init__" else words)
            if file.stem != "__main__" and not f"{name}.".startswith((f"{DRAWER}.", "lun.configs.")):
                yield name


def _may_be_a_part(statement: ast.stmt) -> bool:
    """What is made a part by its bases or by a mark; all else need not be evaluated."""
    if isinstance(statement, ast.ClassDef):
        return bool(statement.bases or statement.decorator_list)
    return isinstance(statement, ast.FunctionDef) and any(map(_is_mark, statement.decorator_list))


def _is_mark(decorator: ast.expr) -> bool:
    return last_name(decorator) == "configurable"
