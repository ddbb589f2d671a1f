"""The names of Lightning's Trainer arguments, read off its source without importing it (which takes seconds)."""

import ast
import functools
from collections.abc import Iterable

from ldm.errors import Fault
from ldm.missing_packages import install_line
from lun.config.declared.module_source import module_text


@functools.cache
def trainer_arguments() -> frozenset[str]:
    """What the installed `lightning.pytorch.Trainer` takes. Raises `Fault` DEP01 where Lightning is missing."""
    text = module_text("lightning.pytorch.trainer.trainer")
    if text is None:
        raise Fault("DEP01", "the package lightning is not installed", fix=install_line("lightning"))
    return frozenset(init_arguments(text.names.values(), "Trainer"))


def init_arguments(statements: Iterable[ast.stmt], class_name: str) -> list[str]:
    """The arguments of `class_name.__init__` as statements of a module declare it, `self` and starred ones left out."""
    for node in statements:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                    given = item.args
                    return [argument.arg for argument in given.posonlyargs + given.args + given.kwonlyargs][1:]
    raise Fault(
        "DEP01",
        f"the source of {class_name} has no constructor to read arguments from",
        why="another version of lightning than 2.6 is installed",
        fix=install_line("lightning"),
    )
