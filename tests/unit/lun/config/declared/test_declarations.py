"""What sources tell of everything that a config may name is what an import tells."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ldm
import lun
from ldm.admission import definition, get_obj_from_str, refusal
from ldm.errors import Fault
from ldm.util import built_by_owner
from lun.config.declared.declarations import declared
from lun.config.declared.stand_ins import Computed, Unreadable
from lun.config.schema import described
from lun.config.signature import accepted_by
from lun.config.targets import find_target

ROOT = Path(__file__).resolve().parents[5]
LIBRARIES = (
    "torch.nn",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.optim.swa_utils",
    "lightning.pytorch.callbacks",
    "lightning.pytorch.loggers",
    "lightning.pytorch.profilers",
    "lightning.pytorch.strategies",
    "lightning.pytorch.plugins",
)
BY_NAME = (
    "lightning.pytorch.Trainer",
    "torch.utils.data.DataLoader",
    "diffusers.UNet2DConditionModel",
    "diffusers.SD3Transformer2DModel",
    "diffusers.AutoencoderKL",
)

ASKED = ("__len__", "__getitem__", "__call__", "example", "step", "accepts")
"""Attributes by which a place of a config knows what fits there."""
PACKAGES = ("ldm.", "lun.", "torch.", "lightning.", "diffusers.")


def in_configs() -> Iterator[str]:
    """Every target of the shipped configs and every heading of the page of keys."""
    for file in (ROOT / "configs").rglob("*.yaml"):
        yield from re.findall(r"target: *[\"']?([\w.]+)", file.read_text("utf-8"))
    yield from re.findall(r"^`([\w.]+)`:", (ROOT / "configs" / "KEYS.md").read_text("utf-8"), flags=re.MULTILINE)


def of_ours() -> Iterator[str]:
    """Every part of a run that the packages define, and the names that they offer for them."""
    for package in (ldm, lun):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not found.name.endswith("__main__") and ".local" not in found.name:
                module = importlib.import_module(found.name)
                names = {*vars(module), *vars(module).get("_MODULES", ())}
                yield from (f"{found.name}.{name}" for name in names if can_be_named(getattr(module, name)))


def can_be_named(value: Any) -> bool:
    return callable(value) and definition(value).startswith(("ldm.", "lun.")) and refusal(value) is None


def of_libraries() -> Iterator[str]:
    for home in LIBRARIES:
        module = importlib.import_module(home)
        for name, value in vars(module).items():
            if inspect.isclass(value) and not name.startswith("_") and refusal(value) is None:
                yield f"{home}.{name}"
    yield from BY_NAME


def same(one: Any, other: Any) -> bool:
    """Whether two annotations or classes say the same; a class and what was read of it are two objects."""
    return described(one) == described(other) and inspect.isclass(one) == inspect.isclass(other)


def told(ask: Callable[[], Any]) -> str:
    try:
        return definition(ask())
    except Fault as fault:
        return str(fault)


def differences(path: str, read: Any) -> Iterator[str]:
    """Where what was read of a target differs from the target."""
    real = get_obj_from_str(path)
    if inspect.isclass(real):
        if [definition(base) for base in real.__mro__] != [definition(base) for base in read.__mro__]:
            yield f"{path}: other bases"
        yield from (f"{path}: {name}" for name in ASKED if hasattr(real, name) != hasattr(read, name))
        if inspect.isabstract(real) != inspect.isabstract(read):
            yield f"{path}: abstract"
    if told(lambda: find_target(path)) != told(lambda: find_target(path, declared)):
        yield f"{path}: {told(lambda: find_target(path))} != {told(lambda: find_target(path, declared))}"
    taken, guessed = accepted_by(real), accepted_by(read)
    if (list(taken.parameters), taken.anything) != (list(guessed.parameters), guessed.anything):
        yield f"{path}: {sorted(taken.parameters.keys() ^ guessed.parameters.keys())}, {taken.anything}"
        return
    for name, one in taken.parameters.items():
        other = guessed.parameters[name]
        kinds = (one.required, one.nullable), (other.required, other.nullable)
        if kinds[0] != kinds[1] or not same(one.annotation, other.annotation):
            yield f"{path}({name}): {one} != {other}"
        if other.default is not Computed.VALUE and described(one.default) != described(other.default):
            yield f"{path}({name}) = {one.default} != {other.default}"
        if built_by_owner(real, name) != built_by_owner(read, name):
            yield f"{path}({name}): built by its owner"


@pytest.mark.parametrize(("targets", "fewest"), [(in_configs, 70), (of_ours, 100), (of_libraries, 200)])
def test_sources_tell_what_an_import_tells(targets: Callable[[], Iterator[str]], fewest: int) -> None:
    found, unread = [], []
    paths = sorted({path for path in targets() if path.startswith(PACKAGES)})
    for path in paths:
        try:
            found += differences(path, declared(path))
        except Unreadable as reason:
            unread.append(f"{path}: {reason}")
        except Fault as fault:
            found.append(f"{path}: {fault}")
    print(f"{len(paths)} targets, {len(unread)} of them only by an import: {unread}")
    assert len(paths) >= fewest
    assert found == [], "\n".join(found)
    assert [path for path in unread if path.startswith(("ldm.", "lun."))] == []


def test_a_module_of_the_users_own_is_imported() -> None:
    with pytest.raises(Unreadable):
        declared("lun.local.colours.Colours")


def test_what_is_not_there_is_told_from_the_source_in_the_same_words() -> None:
    for path in ("ldm.modules.ema.LitEmma", "lun.callbacks.ImageLoger", "lun.no_such_module.X", "torch.optim.AdmW"):
        assert told(lambda: find_target(path)) == told(lambda: find_target(path, declared))  # noqa: B023
