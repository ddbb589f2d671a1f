import ast
from typing import TYPE_CHECKING, Any

import pytest

from ldm.errors import Fault
from lun.config.signature import accepted_by
from lun.config.trainer_arguments import init_arguments, trainer_arguments

if TYPE_CHECKING:
    from nowhere import Unknown


class Base:
    def __init__(self, width: int, depth: int = 2) -> None: ...


class Open(Base):
    def __init__(self, extra: float = 1.0, *args: Any, **kwargs: Any) -> None: ...


class Adapter:
    accepts = "torch.nn.Linear"

    def __init__(self, from_scratch: bool = False, **kwargs: Any) -> None: ...


class Half:
    def __init__(self, size: "int", other: "Unknown" = None) -> None: ...


def _as_ours(cls, monkeypatch):
    monkeypatch.setattr(cls, "__module__", "lun.example")
    return cls


def test_parameters_carry_annotation_and_whether_they_are_required():
    accepted = accepted_by(Base)
    assert list(accepted.parameters) == ["width", "depth"]
    assert accepted.parameters["width"].annotation is int
    assert accepted.parameters["width"].required
    assert not accepted.parameters["depth"].required
    assert not accepted.anything


def test_a_class_of_others_that_takes_keywords_takes_anything():
    assert accepted_by(Open).anything


def test_a_class_of_ours_hands_its_keywords_to_its_base(monkeypatch):
    accepted = accepted_by(_as_ours(Open, monkeypatch))
    assert set(accepted.parameters) == {"extra", "width", "depth"}
    assert not accepted.anything


def test_an_adapter_unites_its_signature_with_that_of_what_it_wraps():
    accepted = accepted_by(Adapter)
    assert {"from_scratch", "in_features", "out_features", "bias"} <= set(accepted.parameters)
    assert accepted.parameters["in_features"].annotation is int
    assert not accepted.anything


def test_a_class_below_an_adapter_with_a_constructor_of_its_own_is_not_taken_for_it():
    class Own(Adapter):
        def __init__(self, more: int, **kwargs: Any) -> None: ...

    assert accepted_by(Own).anything and "in_features" not in accepted_by(Own).parameters


def test_an_annotation_that_cannot_be_resolved_says_nothing():
    assert accepted_by(Half).parameters["other"].annotation is Any


def test_a_function_is_read_like_a_class():
    def make(rate: float) -> None: ...

    assert accepted_by(make).parameters["rate"].annotation is float


def test_the_trainer_source_names_what_the_trainer_takes():
    from lightning.pytorch import Trainer

    assert trainer_arguments() == set(accepted_by(Trainer).parameters)


def test_a_source_without_the_class_is_a_fault():
    with pytest.raises(Fault, match="DEP01"):
        init_arguments(ast.parse("class Other: ...").body, "Trainer")
