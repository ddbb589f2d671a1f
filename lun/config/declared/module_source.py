"""Modules as files: where one lies and which statement binds each of its names, found without importing anything."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

_BY_NAME = "_MODULES"
"""What a package of ours calls its {name: module} of things that its `__getattr__` imports when they are asked for."""

_ENDINGS = (
    *("/__init__.py", ".py", *EXTENSION_SUFFIXES),
    *(f"/__init__{suffix}" for suffix in EXTENSION_SUFFIXES),
)
_LIGHT = ("ldm.admission", "ldm.errors", "ldm.util")
"""Modules of ours that are imported already: what they define is itself."""


@dataclass(frozen=True)
class ModuleText:
    """What the source of a module binds, name by name, in the order in which Python would.

    names       the statement that binds a name
    for_types   those within `if TYPE_CHECKING`, which a library's `__getattr__` may offer all the same
    stars       modules of `from module import *`, the last one first
    moved       {name: module}: classes that say to stand elsewhere, by an assignment to their `__module__`
    postponed   whether annotations are left as text (`from __future__ import annotations`)
    """

    name: str
    file: Path
    names: dict[str, ast.stmt] = field(default_factory=dict)
    for_types: dict[str, ast.stmt] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    lazy: dict[str, str] = field(default_factory=dict)
    postponed: bool = False

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.name if self.file.name == "__init__.py" else self.name.rpartition(".")[0]

    @property
    def folders(self) -> list[str]:
        """Where the modules of a package lie; nowhere for what is no package."""
        return [str(self.file.parent)] if self.file.name == "__init__.py" else []

    def origin(self, statement: ast.ImportFrom) -> str:
        """The module that `from X import ...` names, relative spellings resolved."""
        if not statement.level:
            return statement.module or ""
        base = self.package.split(".")[: len(self.package.split(".")) - statement.level + 1]
        return ".".join([*base, *([statement.module] if statement.module else [])])


def is_light(module: str) -> bool:
    """Whether importing it takes no time: Python's own, and what every start has imported."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top == "typing_extensions" or module in _LIGHT


@functools.cache
def module_file(name: str) -> Path | None:
    """The file of a module, which is no source where it is compiled; None where there is no such module."""
    top, *inner = name.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except ValueError:  # something else than a file stands for it in this process
        return None
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or [])
    if not inner:
        return Path(spec.origin) if spec.origin and Path(spec.origin).is_file() else None
    places = (os.path.join(folder, *inner) for folder in folders)
    return next((Path(file) for place in places for end in _ENDINGS if os.path.isfile(file := place + end)), None)


@functools.cache
def module_text(name: str) -> ModuleText | None:
    """The bindings of a module; None where it has no source in Python."""
    file = module_file(name)
    if file is None or file.suffix != ".py":
        return None
    text = ModuleText(name, file)
    tree = ast.parse(file.read_text(encoding="utf-8"))
    _bind(tree.body, text, text.names)
    future = (one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__")
    postponed = any(alias.name == "annotations" for one in future for alias in one.names)
    return ModuleText(name, file, text.names, text.for_types, text.stars, text.moved, text.lazy, postponed)


def is_put_in_later(module: str, name: str) -> bool:
    """Whether another module of Lightning's puts `name` into this one: those in its drawer of old names do."""
    graveyard = module_file(".".join([*module.split(".")[:2], "_graveyard"]))
    return graveyard is not None and any(
        f', "{name}", ' in file.read_text("utf-8") for file in graveyard.parent.glob("*.py")
    )


def flattened(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements with those of `if`, `try` and `with` in their place: what is the rule after what is the exception."""
    for statement in body:
        if isinstance(statement, ast.If):
            yield from flattened(statement.orelse)
            if not _is_for_types(statement):
                yield from flattened(statement.body)
        elif isinstance(statement, ast.Try):
            for handler in statement.handlers:
                yield from flattened(handler.body)
            yield from flattened([*statement.body, *statement.orelse, *statement.finalbody])
        elif isinstance(statement, ast.With):
            yield from flattened(statement.body)
        else:
            yield statement


def bound_by(statement: ast.stmt) -> Iterator[str]:
    """The plain names that a statement binds."""
    if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield statement.name
    elif isinstance(statement, ast.Assign):
        yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        yield statement.target.id
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in statement.names if alias.name != "*")


def _bind(body: list[ast.stmt], text: ModuleText, names: dict[str, ast.stmt]) -> None:
    for statement in flattened(body):
        if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
            text.stars.insert(0, text.origin(statement))
        elif isinstance(statement, ast.Assign):
            _note(statement, text)
        names |= dict.fromkeys(bound_by(statement), statement)
    for statement in body:
        if isinstance(statement, ast.If) and _is_for_types(statement):
            text.for_types.update({name: one for one in flattened(statement.body) for name in bound_by(one)})


def _note(statement: ast.Assign, text: ModuleText) -> None:
    """`X.__module__ = "a.b"`, and the names that a package of ours imports when they are asked for."""
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and isinstance(value, ast.Constant):
        if target.attr == "__module__":
            text.moved[target.value.id] = str(value.value)
    elif isinstance(target, ast.Name) and target.id == _BY_NAME:
        text.lazy.update(ast.literal_eval(value))


def _is_for_types(statement: ast.If) -> bool:
    return any(isinstance(one, ast.Name | ast.Attribute) and _ends(one) for one in ast.walk(statement.test))


def _ends(node: ast.Name | ast.Attribute) -> bool:
    return (node.id if isinstance(node, ast.Name) else node.attr) == "TYPE_CHECKING"
