"""One class statement, carried out without its methods."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from lun.config.declared.module_source import ModuleText, bound_by, flattened, is_light
from lun.config.declared.stand_ins import Computed, Unreadable, abstract, refuse

FAILURES = (NameError, AttributeError, TypeError, ValueError, KeyError, IndexError, SyntaxError, ImportError)
"""What evaluating a declaration meets where it needs more than a source says."""
CARRIED_OUT = ("dataclass", "configurable", "runtime_checkable")
"""Decorators of classes that say what these are."""
_WITHOUT_EFFECT = ("final", "rank_zero_only", "maybe_allow_in_graph", "compatibility")
"""Those that leave constructors alone."""
_CONSTRUCTORS = ("__init__", "__new__")
_KEEPING = ("register_to_config", "override", "_defaults_from_env_vars", "no_grad", "abstractmethod")
"""Decorators of constructors that keep their signature, as `functools.wraps` does."""
_LEFT_OUT = frozenset(
    f"__{name}__"
    for name in (
        *("init_subclass", "class_getitem", "set_name", "getattr", "getattribute", "setattr", "prepare", "slots"),
        *("instancecheck", "subclasscheck", "eq", "hash"),
    )
)
"""What acts while a class is made or asked."""


class Scope(Protocol):
    """Evaluates what a class statement mentions."""

    text: ModuleText

    def evaluated(self, node: ast.expr) -> Any: ...

    def annotated(self, node: ast.expr) -> Any: ...

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str = "") -> Any: ...

    def decorated(self, made: Any, decorators: list[ast.expr]) -> Any: ...


class ClassBody:
    """One class statement, carried out without its methods."""

    def __init__(self, module: Scope, node: ast.ClassDef) -> None:
        self.module, self.node = module, node
        self.unknown = [one for one in node.decorator_list if last_name(one) not in (*CARRIED_OUT, *_WITHOUT_EFFECT)]
        self.marks = [one for one in node.decorator_list if last_name(one) in CARRIED_OUT]

    def built(self) -> Any:
        if self.unknown:
            raise Unreadable(f"{self.module.text.name}.{self.node.name} is made by {ast.unparse(self.unknown[0])}")
        bases = tuple(self.module.evaluated(base) for base in self.node.bases)
        keywords = {one.arg: self.module.evaluated(one.value) for one in self.node.keywords if one.arg}
        kept = {name: value for name, value in keywords.items() if _is_of_python(name, value)}
        try:
            resolved = types.resolve_bases(bases)
            made = types.new_class(self.node.name, bases, kept, lambda names: names.update(self.body(resolved)))
            return self.module.decorated(made, self.marks)
        except FAILURES as error:
            raise Unreadable(f"{self.module.text.name}.{self.node.name}: {error}") from error

    def body(self, bases: Iterable[Any]) -> dict[str, Any]:
        """What stands in the body; fields with their annotations where the class is made of these."""
        names: dict[str, Any] = {"__module__": self.module.text.name, "__qualname__": self.node.name}
        names["__doc__"] = ast.get_docstring(self.node) or ""
        fields = bool(self.marks) or any(_is_made_of_fields(base) for base in bases)
        for statement in flattened(self.node.body):
            for name in bound_by(statement):
                if name not in _LEFT_OUT:
                    self.bind(name, statement, names, fields)
        return names

    def bind(self, name: str, statement: ast.stmt, names: dict[str, Any], fields: bool) -> None:
        if isinstance(statement, ast.AnnAssign):
            if fields:
                names.setdefault("__annotations__", {})[name] = self.module.annotated(_unquoted(statement.annotation))
            if statement.value is None:
                return
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            names[name] = self.method(statement)
        elif isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            names[name] = self.attribute(statement.value, fields)
        else:
            names[name] = refuse

    def attribute(self, value: ast.expr, fields: bool) -> Any:
        if isinstance(value, ast.Constant):
            return value.value
        if not fields:
            return Computed.VALUE
        try:
            return self.module.evaluated(value)
        except Unreadable:
            return Computed.VALUE

    def method(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Any:
        words = [last_name(one) for one in node.decorator_list]
        if node.name not in _CONSTRUCTORS:
            return abstract if "abstractmethod" in words else _kind_of(words)(refuse)
        if any(word not in _KEEPING for word in words):
            raise Unreadable(f"{self.node.name}.{node.name} is made by {words[0]}")
        function = self.module.function(node, owner=f"{self.node.name}.")
        function.__isabstractmethod__ = "abstractmethod" in words
        return staticmethod(function) if node.name == "__new__" else function


def last_name(decorator: ast.expr) -> str:
    """`dataclass` of `@dataclasses.dataclass(frozen=True)`."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(called).rpartition(".")[2]


def mentioned(node: ast.expr) -> Iterator[str]:
    """The names in an expression, also those in text, which an annotation may be."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            yield inner.id
        elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            try:
                yield from mentioned(ast.parse(inner.value, mode="eval").body)
            except SyntaxError:
                continue  # a plain text


def _unquoted(node: ast.expr) -> ast.expr:
    """An annotation that is written as text, as the expression that it is."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return ast.parse(node.value, mode="eval").body
    return node


def _kind_of(words: list[str]) -> Callable[[Any], Any]:
    kinds: Mapping[str, Callable[[Any], Any]] = {
        "property": property,
        "classmethod": classmethod,
        "staticmethod": staticmethod,
    }
    return next((kinds[word] for word in words if word in kinds), lambda stub: stub)


def _is_of_python(name: str, value: Any) -> bool:
    """A metaclass of Python's own, or a keyword of one; those of libraries act when a class is made."""
    return is_light(getattr(value, "__module__", "")) if name == "metaclass" else name == "total"


def _is_made_of_fields(base: Any) -> bool:
    return type(base).__name__ in ("_TypedDictMeta", "NamedTupleMeta", "EnumType")
