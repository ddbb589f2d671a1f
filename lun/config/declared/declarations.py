"""Modules as they are declared: each name evaluated when it is first asked for, from source alone.

A class is rebuilt with its bases, the signature of its constructor and its plain attributes, and with no body to any
method: `inspect` and `typing` answer of it what they answer of the class itself. A test holds the two equal for all
that a config of ours names.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import importlib
import types
from collections.abc import Iterable
from typing import Any

from ldm.admission import get_obj_from_str
from lun.config.declared.class_body import CARRIED_OUT, FAILURES, ClassBody, last_name, mentioned
from lun.config.declared.module_source import ModuleText, is_light, is_put_in_later, module_file, module_text
from lun.config.declared.stand_ins import CompiledModule, Computed, Unreadable, is_stand_in, refuse, stand_in

READABLE = ("ldm", "lun", "torch", "lightning", "diffusers")
"""Packages whose classes a config may name and whose sources say what these take."""
USERS = "lun.local"
_RAISES = ast.Expr(ast.Call(ast.Name("__unreadable__", ast.Load()), [], []))


def declared_module(name: str) -> DeclaredModule:
    """A module that stands for the one of this name. Raises `Unreadable`, ModuleNotFoundError where there is none."""
    if name.partition(".")[0] not in READABLE or f"{name}.".startswith(f"{USERS}."):
        raise Unreadable(name)
    if module_file(name) is None:
        above = name.rpartition(".")[0]
        missing = name if not above or module_file(above) else above
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
    return _module(name)


def declared(path: str) -> Any:
    """The class or function at an import path, as it is declared.

    Raises `Fault` CFG04 where there is none, `Unreadable` where only importing it would show.
    """
    found = get_obj_from_str(path, declared_module)
    if is_stand_in(found):
        raise Unreadable(path)
    return found


class DeclaredModule(types.ModuleType):
    """What a module declares; an attribute is made when it is first asked for."""

    def __init__(self, text: ModuleText) -> None:
        super().__init__(text.name)
        self.__path__ = text.folders
        self._declared = _Declarations(text)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._declared.get(name)

    def __dir__(self) -> list[str]:
        return sorted(self._declared.all_names())


@functools.cache
def _module(name: str) -> DeclaredModule:
    text = module_text(name)
    if text is None:
        raise Unreadable(f"{name} has no source")
    return DeclaredModule(text)


class _Declarations:
    """Evaluates the declarations of one module, each once, in a scope that gets the names which it mentions."""

    def __init__(self, text: ModuleText) -> None:
        self.text = text
        self.scope: dict[str, Any] = {"__name__": text.name, "__builtins__": builtins, "__unreadable__": refuse}
        self.unread: dict[str, str] = {}
        self.begun: set[str] = set()
        self.later: list[str] = []

    def all_names(self) -> set[str]:
        """Every name that the module binds."""
        stars = (module_text(star) for star in self.text.stars)
        inherited = {name for text in stars if text for name in text.names}
        return {*self.text.names, *self.text.lazy, *inherited}

    def get(self, name: str) -> Any:
        """What `name` is in this module. Raises AttributeError where it is nothing, `Unreadable` where that is open."""
        if name not in self.scope:
            if name in self.begun:
                raise Unreadable(f"{self.text.name}.{name} needs itself")
            self.begun.add(name)
            try:
                self.scope[name] = self.found(name)
                if name in self.text.moved:
                    self.scope[name].__module__ = self.text.moved[name]
            finally:
                self.begun.discard(name)
            if not self.begun:
                waiting, self.later = self.later, []
                self.know(waiting)
        return self.scope[name]

    def found(self, name: str) -> Any:
        statement = self.text.names.get(name)
        if statement is not None:
            return self.made(name, statement)
        if name in self.text.lazy:
            home = self.text.lazy[name]
            return getattr(_whole(home if "." in home else f"{self.text.name}.{home}"), name)
        for star in filter(module_file, self.text.stars):
            try:
                return getattr(_whole(star), name)
            except AttributeError:
                continue
        if module_file(f"{self.text.name}.{name}"):
            return _whole(f"{self.text.name}.{name}")
        computes = not self.text.lazy and not {"__getattr__", "_LazyModule"}.isdisjoint(self.text.names)
        if computes and name in self.text.for_types:  # what a library imports for type checkers, it also offers
            return self.made(name, self.text.for_types[name])
        if computes or is_put_in_later(self.text.name, name):
            raise Unreadable(f"{self.text.name} computes {name}")
        raise AttributeError(f"module {self.text.name!r} has no attribute {name!r}")

    def made(self, name: str, statement: ast.stmt) -> Any:
        if isinstance(statement, ast.ImportFrom):
            alias, origin = _alias(statement, name), self.text.origin(statement)
            if origin == self.text.name:
                return _whole(f"{origin}.{alias.name}")
            try:
                return getattr(_whole(origin), alias.name)
            except AttributeError as error:
                raise Unreadable(str(error)) from error
        if isinstance(statement, ast.Import):
            alias = _alias(statement, name)
            return _whole(alias.name if alias.asname else name)
        if isinstance(statement, ast.ClassDef):
            return ClassBody(self, statement).built()
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [one for one in statement.decorator_list if last_name(one) in CARRIED_OUT]
            return self.decorated(self.function(statement), marks)
        value = getattr(statement, "value", None)
        if value is None:
            raise Unreadable(f"{self.text.name}.{name} has no value")
        return self.evaluated(value)

    def evaluated(self, node: ast.expr) -> Any:
        """The value of an expression of the module. Raises `Unreadable` where it computes more than a type."""
        names = list(mentioned(node))
        self.know(names)
        for name in names:
            if name in self.unread:
                raise Unreadable(f"{self.text.name}.{name}: {self.unread[name]}")
        return self.annotated(node)

    def annotated(self, node: ast.expr) -> Any:
        """The same for an annotation: a class that cannot be read is one all the same."""
        self.know(mentioned(node))
        try:
            return eval(compile(ast.Expression(node), str(self.text.file), "eval"), self.scope)
        except FAILURES as error:
            raise Unreadable(f"{self.text.name}: {ast.unparse(node)}: {error}") from error

    def know(self, names: Iterable[str]) -> None:
        """Put names into the scope as far as there is something behind them; what cannot be read stands as a class."""
        for name in names:
            if name in self.begun:
                self.later.append(name)
            elif name not in self.scope:
                try:
                    self.get(name)
                except AttributeError:
                    continue  # a builtin, or what exists for type checkers alone
                except Unreadable as reason:
                    self.unread[name] = str(reason)
                    self.scope[name] = stand_in(self.text.name, name)

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str = "") -> Any:
        """A function of this signature that nobody can call."""
        if node.returns is not None:
            self.know(mentioned(node.returns))
        signature = ast.FunctionDef(node.name, self.arguments(node.args), [_RAISES], [], node.returns)
        ast.copy_location(signature, node)
        flags = __future__.annotations.compiler_flag if self.text.postponed else 0
        module = ast.fix_missing_locations(ast.Module([signature], []))
        made: dict[str, Any] = {}
        try:
            exec(compile(module, str(self.text.file), "exec", flags=flags, dont_inherit=True), self.scope, made)
        except FAILURES as error:
            raise Unreadable(f"{self.text.name}.{node.name}: {error}") from error
        function = made[node.name]
        function.__qualname__ = owner + node.name
        function.__doc__ = ast.get_docstring(node)
        return function

    def decorated(self, made: Any, decorators: list[ast.expr]) -> Any:
        for decorator in reversed(decorators):
            made = self.evaluated(decorator)(made)
        return made

    def arguments(self, given: ast.arguments) -> ast.arguments:
        """The same arguments, with defaults as names of values in the scope."""
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        for argument in every:
            if argument is not None and argument.annotation is not None:
                self.know(mentioned(argument.annotation))
        defaults = [self.default(one) for one in given.defaults]
        of_keywords = [one and self.default(one) for one in given.kw_defaults]
        return ast.arguments(
            given.posonlyargs, given.args, given.vararg, given.kwonlyargs, of_keywords, given.kwarg, defaults
        )

    def default(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Constant):
            return node
        name = f"__default_{len(self.scope)}"
        try:
            value = self.evaluated(node)
        except Unreadable:
            value = Computed.VALUE
        self.scope[name] = Computed.VALUE if is_stand_in(value) else value
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _alias(statement: ast.Import | ast.ImportFrom, name: str) -> ast.alias:
    return next(one for one in statement.names if (one.asname or one.name).partition(".")[0] == name)


def _whole(module: str) -> Any:
    """`import module`: declared where it has a source, imported where that takes no time."""
    if is_light(module):
        return importlib.import_module(module)
    return CompiledModule(module) if _is_compiled(module) else _module(module)


def _is_compiled(module: str) -> bool:
    """Whether it is compiled, or a part of one that is, such as `torch._C._distributed`."""
    file = module_file(module) or module_file(module.rpartition(".")[0] or module)
    return file is not None and file.suffix != ".py"
