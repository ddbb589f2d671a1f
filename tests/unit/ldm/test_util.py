"""Recipes: import paths, nesting, and who builds what."""

import sys
from collections import OrderedDict
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ldm.admission import grant
from ldm.errors import Fault
from ldm.util import Recipe, built_by_owner, get_obj_from_str, instantiate_from_config, is_recipe


@pytest.fixture(autouse=True)
def _trusting_the_library() -> None:
    grant(("fractions", "types"))


HALF = {"target": "fractions.Fraction", "params": {"numerator": 1, "denominator": 2}}


def test_a_class_is_found_by_its_import_path() -> None:
    assert get_obj_from_str("collections.OrderedDict") is OrderedDict


def test_a_method_of_a_class_is_found() -> None:
    assert get_obj_from_str("collections.OrderedDict.fromkeys")("ab") == OrderedDict.fromkeys("ab")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("collections.OrderedDictt", "'OrderedDictt'"),
        ("no_such_package.Thing", "'no_such_package'"),
        ("collections.no_such_module.Thing", "'no_such_module'"),
        ("Fraction", "'Fraction'"),
        (".Fraction", "import path"),
        ("fractions.", "import path"),
        ("", "import path"),
        ("a path with spaces", "import path"),
    ],
)
def test_a_target_that_is_not_there_is_a_fault_that_says_what_is_missing(path: str, why: str) -> None:
    with pytest.raises(Fault) as fault:
        get_obj_from_str(path)
    assert fault.value.id == "CFG04"
    assert why in fault.value.why


def test_a_broken_import_inside_of_a_module_is_not_taken_for_a_missing_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_with_a_broken_import.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
        get_obj_from_str("module_with_a_broken_import.Thing")
    sys.modules.pop("module_with_a_broken_import", None)


@pytest.mark.parametrize(("value", "answer"), [(HALF, True), ({"params": {}}, False), ("target", False), (None, False)])
def test_a_recipe_is_a_map_with_a_target(value: object, answer: bool) -> None:
    assert is_recipe(value) is answer


def test_a_recipe_is_built_with_its_params() -> None:
    assert instantiate_from_config(HALF) == Fraction(1, 2)


@pytest.mark.parametrize("recipe", [{"target": "fractions.Fraction"}, {"target": "fractions.Fraction", "params": None}])
def test_a_recipe_without_params_is_built_with_none(recipe: dict[str, Any]) -> None:
    assert instantiate_from_config(recipe) == Fraction(0)


def test_further_arguments_are_handed_on() -> None:
    assert instantiate_from_config({"target": "fractions.Fraction", "params": {"denominator": 3}}, 2) == Fraction(2, 3)
    assert instantiate_from_config({"target": "fractions.Fraction"}, 2, denominator=3) == Fraction(2, 3)


def test_nested_recipes_are_built_first_at_any_depth() -> None:
    recipe = {"target": "types.SimpleNamespace", "params": {"one": HALF, "many": [{"deep": HALF}, 3]}}
    assert instantiate_from_config(recipe) == SimpleNamespace(one=Fraction(1, 2), many=[{"deep": Fraction(1, 2)}, 3])


def test_a_parameter_whose_name_ends_in_config_gets_the_recipe_itself() -> None:
    recipe = {"target": "types.SimpleNamespace", "params": {"unet_config": HALF}}
    assert instantiate_from_config(recipe).unet_config == HALF


def test_building_leaves_the_recipe_as_it_was() -> None:
    recipe = {"target": "types.SimpleNamespace", "params": {"one": {"target": "fractions.Fraction"}}}
    instantiate_from_config(recipe)
    assert recipe == {"target": "types.SimpleNamespace", "params": {"one": {"target": "fractions.Fraction"}}}


def owner(network: Recipe, maybe: Recipe | None, quoted: "Recipe", count: int, other: Mapping[str, int]) -> None:
    """Only its signature matters."""


@pytest.mark.parametrize(
    ("name", "answer"),
    [("network", True), ("maybe", True), ("quoted", True), ("count", False), ("other", False), ("absent", False)],
)
def test_a_parameter_annotated_as_a_recipe_is_built_by_its_owner(name: str, answer: bool) -> None:
    assert built_by_owner(owner, name) is answer


def test_a_target_without_a_signature_builds_nothing_itself() -> None:
    assert built_by_owner(dict.fromkeys, "value") is False


@pytest.mark.parametrize("params", [None, {}, {"rules": {}, "more": 1}])
def test_params_that_a_target_lacks_or_does_not_know_are_a_fault(params: Any) -> None:
    with pytest.raises(Fault, match=r"CFG08.*Rules cannot be built: (missing|got)"):
        instantiate_from_config({"target": "ldm.training.rules.Rules", "params": params})


@pytest.mark.parametrize("placeholder", ["__is_first_stage__", "__is_unconditional__"])
def test_the_placeholders_of_old_configs_stand_for_an_absent_part(placeholder: Any) -> None:
    assert instantiate_from_config(placeholder) is None


@pytest.mark.parametrize("value", [{"params": {}}, "fractions.Fraction", None])
def test_what_has_no_target_is_a_fault(value: Any) -> None:
    with pytest.raises(Fault) as fault:
        instantiate_from_config(value)
    assert fault.value.id == "CFG04"
