"""The names of Lightning's Trainer arguments, read off its source without importing it (which takes seconds)."""

import ast
import functools
import importlib.util
from pathlib import Path

from ldm.errors import Fault
from ldm.missing_packages import install_line


@functools.cache
def trainer_arguments() -> frozenset[str]:
    """What the installed `lightning.pytorch.Trainer` takes. Raises `Fault` DEP01 where Lightning is missing."""
    spec = importlib.util.find_spec("lightning")
    if spec is None or spec.origin is None:
        raise Fault("DEP01", "the package lightning is not installed", fix=install_line("lightning"))
    source = Path(spec.origin).with_name("pytorch") / "trainer" / "trainer.py"
    return frozenset(init_arguments(source.read_text(encoding="utf-8"), "Trainer"))


def init_arguments(source: str, class_name: str) -> list[str]:
    """The arguments of `class_name.__init__` in a Python source text, `self` and starred ones left out."""
    for node in ast.parse(source).body:
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
