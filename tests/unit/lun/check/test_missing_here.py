"""What settings name that is not installed, and what of a configuration can be judged without it."""

import sys

import pytest

from ldm.errors import Fault
from lun.check.missing_here import can_be_left_out, is_lacking, places_of_lacking, unchecked, without

EIGHT_BIT = {"target": "bitsandbytes.optim.AdamW8bit"}
MODEL_OPTIMIZER = ("model", "params", "optimizer_config")


@pytest.fixture(autouse=True)
def _without_bitsandbytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)


def test_an_optimizer_can_be_left_out_and_the_rest_stays_as_it_is() -> None:
    config = {"model": {"target": "torch.nn.Identity", "params": {"optimizer_config": EIGHT_BIT, "a": [1]}}}
    assert places_of_lacking(config) == {MODEL_OPTIMIZER} and can_be_left_out(MODEL_OPTIMIZER)
    assert without(config, [MODEL_OPTIMIZER]) == {"model": {"target": "torch.nn.Identity", "params": {"a": [1]}}}
    assert "optimizer_config" in config["model"]["params"]


def test_what_stands_within_a_callback_is_left_out_with_it() -> None:
    config = {"lightning": {"callbacks": {"mine": {"target": "torch.nn.Identity", "params": {"one": EIGHT_BIT}}}}}
    assert places_of_lacking(config) == {("lightning", "callbacks", "mine")}


@pytest.mark.parametrize("place", [("model",), ("data", "params", "train"), ("lightning", "callbacks")])
def test_a_run_does_not_do_without_its_model_or_its_data(place: tuple[str, ...]) -> None:
    assert not can_be_left_out(place)


def test_a_package_and_a_file_may_be_elsewhere_and_a_wrong_setting_is_wrong_everywhere() -> None:
    of_file = Fault("CFG01", "prompts file not found")
    of_file.__cause__ = FileNotFoundError()
    assert is_lacking(of_file) and is_lacking(Fault("DEP01", "no package")) and not is_lacking(Fault("CFG01", "wrong"))


def test_a_note_says_that_nothing_more_is_known() -> None:
    note = unchecked(Fault("DEP01", "a", where="b", why="c", fix="d"))
    assert note.render("note").splitlines() == [
        "note[DEP01]: a",
        "  where: b",
        "  why:   c; what is built with it is not checked",
        "  fix:   d",
    ]
