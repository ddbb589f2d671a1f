"""Functions of tensors say the shapes of these in their docstrings."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

LDM = Path(__file__).resolve().parents[3] / "ldm"
AXIS = r"[\w.' +*/^-]{1,14}"
AXES = rf"\({AXIS},(?: {AXIS},?)*(?:\[[^]]*\])?\)"
SHAPE = re.compile(rf"{AXES}|\b(any|its|that|this|their) shape\b|\bthe shape of\b|\bscalar|\bflat|sides of 1")
"""(b, c, h, w), (b,), (steps + 1,): a letter, number or word an axis; or words where it may be any."""
OF_TENSORS = re.compile(r"\bTensor\b")
OF_STATES = re.compile(r"Mapping|dict|State|Callable")


class TensorFunction(NamedTuple):
    """A public function or method with a tensor in its signature, and the docstring that speaks of it.

    That of a call is its class' where it has none itself.
    """

    place: str
    room: str
    name: str
    words: str


def is_public(node: ast.FunctionDef) -> bool:
    return node.name == "__call__" or not node.name.startswith("_")


def is_of_tensors(node: ast.FunctionDef) -> bool:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    annotations = [ast.unparse(one) for one in [*(a.annotation for a in arguments), node.returns] if one]
    return any(OF_TENSORS.search(text) and not OF_STATES.search(text) for text in annotations)


def below(node: ast.Module | ast.ClassDef, file: Path, of_class: str = "") -> Iterator[TensorFunction]:
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from below(child, file, ast.get_docstring(child) or "-")
        elif isinstance(child, ast.FunctionDef) and is_public(child) and is_of_tensors(child):
            called = of_class if child.name in ("__call__", "forward") else ""
            words = ast.get_docstring(child) or called
            yield TensorFunction(f"{file}:{child.lineno} {child.name}", file.parts[0], child.name, words)


def describes_a_call(file: Path) -> bool:
    """Whether a text below `Law = Callable[...]` gives the shapes of such callables."""
    body = ast.parse(file.read_text()).body
    return any(
        "Callable[" in ast.unparse(alias) and isinstance(text, ast.Expr) and bool(SHAPE.search(ast.unparse(text)))
        for alias, text in pairwise(body)
        if isinstance(alias, ast.Assign)
    )


def tensor_functions() -> list[TensorFunction]:
    return [
        one for path in sorted(LDM.rglob("*.py")) for one in below(ast.parse(path.read_text()), path.relative_to(LDM))
    ]


def test_public_functions_of_tensors_name_shapes_or_implement_one_that_does() -> None:
    functions = tensor_functions()
    assert len(functions) > 150
    documented = {(one.room, one.name) for one in functions if SHAPE.search(one.words)}
    documented |= {(path.relative_to(LDM).parts[0], "__call__") for path in LDM.rglob("*.py") if describes_a_call(path)}
    silent = [one for one in functions if not SHAPE.search(one.words)]
    own = [one for one in silent if one.words.strip("-") and one.name not in ("__call__", "forward")]
    assert [one.place for one in silent if one in own or (one.room, one.name) not in documented] == []
