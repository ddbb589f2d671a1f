"""Hooks of old data sets: prepared first, then set up, and only then asked for their length."""

import pytest

from ldm.errors import Fault
from lun.data.hooks import call_hooks
from lun.data.module import DataModuleFromConfig


class Old:
    """As people wrote them in 2022: its examples are known only after it was set up."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def on_prepare_data(self) -> None:
        self.called.append("prepared")

    def on_setup(self) -> None:
        self.called.append("set up")

    def __len__(self) -> int:
        return 2 * ("set up" in self.called)

    def __getitem__(self, index: int) -> dict:
        return {}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> DataModuleFromConfig:
    monkeypatch.setattr("lun.data.building.instantiate_from_config", lambda recipe: Old())
    return DataModuleFromConfig(1, train={"target": "Old"}, validation={"target": "Old"})


def test_the_data_module_calls_both_once_before_it_asks_for_anything(module):
    module.setup("fit")
    module.setup("fit")
    assert [module.dataset(split).called for split in ("train", "validation")] == [["prepared", "set up"]] * 2
    assert module.n == 2


def test_a_data_set_without_hooks_is_left_alone():
    call_hooks(object())


def test_a_fault_while_preparing_is_passed_on_and_frees_the_others():
    class Failing(Old):
        def on_prepare_data(self) -> None:
            raise Fault("DAT01", "no network")

    for _ in range(2):
        with pytest.raises(Fault, match="no network"):
            call_hooks(Failing())
