"""`strategy: deepspeed` and the section beside it, as files of 2022 have them."""

from typing import Any

import pytest

from ldm.errors import Fault
from lun.strategies.old_deepspeed import NAMES, unread_section, with_deepspeed

TARGET = "lun.strategies.deepspeed.DeepSpeed"


def params(name: str, **section: Any) -> Any:
    return with_deepspeed({"strategy": name, "devices": 2}, section)["strategy"]["params"]


def test_the_section_becomes_the_params_of_a_recipe() -> None:
    trainer = with_deepspeed({"strategy": "deepspeed", "devices": 2}, {"stage": 3, "offload_optimizer": True})
    assert trainer == {"strategy": {"target": TARGET, "params": {"stage": 3, "offload_optimizer": True}}, "devices": 2}


def test_a_longer_name_says_the_same_and_the_section_wins() -> None:
    assert params("deepspeed_stage_2_offload") == {"stage": 2, "offload_optimizer": True}
    assert params("deepspeed_stage_3", stage=1) == {"stage": 1}


@pytest.mark.parametrize("name", NAMES)
def test_names_mean_what_they_mean_to_lightning(name: str) -> None:
    from lightning.pytorch.strategies import StrategyRegistry

    assert params(name) == StrategyRegistry[name]["init_params"]


def test_a_name_like_these_is_refused_with_the_list() -> None:
    with pytest.raises(Fault, match="there is no strategy deepspeed_stage_4") as fault:
        params("deepspeed_stage_4")
    assert "deepspeed_stage_3" in fault.value.fix


@pytest.mark.parametrize("strategy", ["ddp", None, {"target": TARGET}])
def test_other_strategies_are_left_as_they_are(strategy: Any) -> None:
    assert with_deepspeed({"strategy": strategy}, {"stage": 3}) == {"strategy": strategy}


def test_a_section_that_nothing_reads_is_told() -> None:
    assert "without effect" in str(unread_section({"strategy": "ddp"}, {"stage": 2}))
    assert unread_section({"strategy": "deepspeed"}, {"stage": 2}) is None
    assert unread_section({"strategy": "ddp"}, {}) is None
