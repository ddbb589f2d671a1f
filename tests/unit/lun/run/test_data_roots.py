"""Which settings `--data_root` means."""

import pytest

from ldm.errors import Fault
from lun.run.data_roots import MISSING, data_roots, name_of_roots, root_flag


def config(train: str, validation: str | None) -> dict[str, object]:
    splits: dict[str, object] = {"train": {"target": "x", "params": {"data_root": train}}}
    if validation is not None:
        splits["validation"] = {"target": "x", "params": {"data_root": validation}}
    return {"data": {"params": splits}}


def sets(*names: str) -> dict[str, object]:
    return {"data": {"params": {"train": {"sets": {name: {"target": "x"} for name in names} | {"off": None}}}}}


TRAIN, VALIDATION = "data.params.train.params.data_root", "data.params.validation.params.data_root"


@pytest.mark.parametrize(
    ("train", "validation", "meant"),
    [
        ("a", None, [TRAIN]),
        ("a", "a", [TRAIN, VALIDATION]),
        ("a", MISSING, [TRAIN, VALIDATION]),
        ("a", "b", [TRAIN]),
    ],
)
def test_a_validation_root_that_was_set_apart_stays(train: str, validation: str | None, meant: list[str]) -> None:
    assert data_roots(config(train, validation), ["DIR"]) == dict.fromkeys(meant, "DIR")


def test_each_of_several_sets_is_given_its_folder_by_name() -> None:
    assert data_roots(sets("cats", "dogs"), ["cats=/a=b", "dogs=x"]) == {
        "data.params.train.sets.cats.params.data_root": "/a=b",
        "data.params.train.sets.dogs.params.data_root": "x",
    }


def test_one_set_needs_no_name() -> None:
    assert data_roots(sets("cats"), ["DIR"]) == {"data.params.train.sets.cats.params.data_root": "DIR"}


def test_one_recipe_reads_a_folder_whatever_its_name() -> None:
    assert data_roots(config("a", None), ["x=y"]) == {TRAIN: "x=y"}


@pytest.mark.parametrize(
    ("found", "words", "what"),
    [
        (sets("cats", "dogs"), ["DIR"], "--data_root DIR does not say of which set"),
        (sets("cats", "dogs"), ["cow=DIR"], "no set is called cow"),
        (sets("cats", "dogs"), ["off=DIR"], "no set is called off"),
        (config("a", None), ["x", "y"], "given 2 times"),
    ],
)
def test_a_folder_that_is_nobodys_is_refused_and_shown_how(
    found: dict[str, object], words: list[str], what: str
) -> None:
    with pytest.raises(Fault, match=what) as raised:
        data_roots(found, words)
    assert raised.value.id == "CLI03"
    assert "--data_root" in raised.value.fix
    if "sets" in str(found):
        assert raised.value.fix == "--data_root cats=DIR --data_root dogs=DIR"


def test_a_folder_that_is_missing_is_asked_for_by_the_name_of_its_set() -> None:
    assert root_flag(("data", "params", "train", "sets", "cats", "params", "data_root")) == "--data_root cats=DIR"
    assert root_flag(("data", "params", "train", "params", "data_root")) == "--data_root DIR"


def test_a_run_is_called_by_all_of_its_folders() -> None:
    assert name_of_roots({"params": {"data_root": "/x/cats/"}}) == "cats"
    several = {"a": {"params": {"data_root": "/x/cats"}}, "b": None, "c": {"params": {"data_root": "dogs"}}, "d": {}}
    assert name_of_roots({"sets": several}) == "cats+dogs"
    assert name_of_roots({"target": "x"}) is None
