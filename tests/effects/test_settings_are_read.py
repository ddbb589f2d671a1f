"""What a constructor takes is used by it, and what it stores is read: to be kept is not yet an effect."""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOMS = (
    "ldm/diffusion",
    "ldm/lr_scheduler.py",
    "ldm/models",
    "ldm/modules",
    "lun/callbacks",
    "lun/data",
    "lun/loggers",
    "lun/strategies",
)
_COMPVIS = "means nothing beside a spatial transformer in CompVis' class either, and every public config names it"
EXCEPTIONS: Mapping[str, str] = {
    "UNetModel.num_heads_upsample": _COMPVIS,
    "UNetModel.use_new_attention_order": _COMPVIS,
    "UNetModel.legacy": _COMPVIS,
    "Reconstructed.posterior": "for metrics of one's own",
}
"""Parameters that nothing uses and attributes that nothing reads, each with its reason."""


@dataclass(frozen=True)
class Source:
    """The classes of the rooms, and how often each attribute and each text occurs in the two packages."""

    constructors: list[tuple[str, ast.ClassDef | ast.FunctionDef]]
    read: Counter[str]


@pytest.fixture(scope="module")
def source(request: pytest.FixtureRequest) -> Source:
    root = Path(request.config.rootpath)
    constructors: list[tuple[str, ast.ClassDef | ast.FunctionDef]] = []
    read: Counter[str] = Counter()
    for file in sorted((*root.glob("ldm/**/*.py"), *root.glob("lun/**/*.py"))):
        tree = ast.parse(file.read_text("utf-8"))
        read.update(_names_read(tree))
        if file.relative_to(root).as_posix().startswith(ROOMS):
            kinds = (ast.ClassDef, ast.FunctionDef)
            constructors += [(node.name, node) for node in tree.body if isinstance(node, kinds)]
    return Source(constructors, read)


def _names_read(tree: ast.AST) -> Iterator[str]:
    """Attributes that are read, also by name as in `getattr(strategy, "saves_in_parts")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _constructor(node: ast.ClassDef | ast.FunctionDef) -> ast.FunctionDef | None:
    """What takes the parameters: a function that is spelt as a class, or `__init__`."""
    if isinstance(node, ast.FunctionDef):
        return node if node.name[0].isupper() else None
    return next((f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)


def _fields(node: ast.ClassDef | ast.FunctionDef) -> list[str]:
    """The fields of a dataclass."""
    marked = any("dataclass" in ast.unparse(one) for one in node.decorator_list)
    found = [item.target for item in node.body if isinstance(item, ast.AnnAssign)] if marked else []
    return [target.id for target in found if isinstance(target, ast.Name)]


def _unused(function: ast.FunctionDef) -> Iterator[str]:
    """Parameters that the body never names and that can have several values."""
    used = {node.id for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Name)}
    for given in (*function.args.args, *function.args.kwonlyargs):
        single = given.annotation is not None and _is_single(ast.unparse(given.annotation))
        if given.arg not in used and given.arg != "self" and not single:
            yield given.arg


def _is_single(annotation: str) -> bool:
    return annotation.startswith("Literal[") and "," not in annotation


def _stored(function: ast.FunctionDef) -> Iterator[str]:
    """Attributes of self that are made of parameters."""
    names = {given.arg for given in (*function.args.args, *function.args.kwonlyargs)} - {"self"}
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            made_of = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if made_of & names:
                yield from (target.attr for target in targets if isinstance(target, ast.Attribute))


def idle(source: Source) -> set[str]:
    """`Class.name` of all that is taken and not used, or kept and not read."""
    found: set[str] = set()
    for name, node in source.constructors:
        kept = _fields(node)
        if function := _constructor(node):
            found |= {f"{name}.{parameter}" for parameter in _unused(function)}
            kept += _stored(function)
        found |= {f"{name}.{attribute}" for attribute in kept if not source.read[attribute]}
    return found


def test_every_parameter_is_used_and_every_stored_one_is_read(
    source: Source, capsys: pytest.CaptureFixture[str]
) -> None:
    assert idle(source) == set(EXCEPTIONS)
    with capsys.disabled():
        made = [found for _, node in source.constructors if (found := _constructor(node))]
        count = sum(len(one.args.args) + len(one.args.kwonlyargs) for one in made)
        print(f"\n{count} parameters of {len(made)} constructors are used, {len(EXCEPTIONS)} exceptions")


def test_what_is_neither_used_nor_read_is_found() -> None:
    text = "class A:\n    def __init__(self, used, unused, kept):\n        self.a = used\n        self.kept_ = kept\n"
    (node,) = ast.parse(text + "    def go(self):\n        return self.a\n").body
    assert isinstance(node, ast.ClassDef)
    assert idle(Source([("A", node)], Counter(_names_read(node)))) == {"A.unused", "A.kept_"}
