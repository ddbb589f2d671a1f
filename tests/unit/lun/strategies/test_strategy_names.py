"""Names of strategies; `strategy: deepspeed` and the section beside it, as files of 2022 have them."""

from typing import Any

import pytest

from ldm.errors import Fault
from lun.strategies.strategy_names import DEEPSPEED, strategy_of, unread_section, with_deepspeed_section

TARGET = "lun.strategies.deepspeed.DeepSpeed"


def params(name: str, **section: Any) -> Any:
    return with_deepspeed_section({"strategy": name, "devices": 2}, section)["strategy"]["params"]


def test_the_section_becomes_the_params_of_a_recipe() -> None:
    trainer = with_deepspeed_section({"strategy": "deepspeed", "devices": 2}, {"stage": 3, "offload_optimizer": True})
    assert trainer == {"strategy": {"target": TARGET, "params": {"stage": 3, "offload_optimizer": True}}, "devices": 2}


def test_a_longer_name_says_the_same_and_the_section_wins() -> None:
    assert params("deepspeed_stage_2_offload") == {"stage": 2, "offload_optimizer": True}
    assert params("deepspeed_stage_3", stage=1) == {"stage": 1}


@pytest.mark.parametrize("name", DEEPSPEED)
def test_names_mean_what_they_mean_to_lightning(name: str) -> None:
    from lightning.pytorch.strategies import StrategyRegistry

    assert params(name) == StrategyRegistry[name]["init_params"]


def test_a_name_like_these_is_refused_with_the_list() -> None:
    with pytest.raises(Fault, match="there is no strategy deepspeed_stage_4") as fault:
        strategy_of("deepspeed_stage_4")
    assert "deepspeed_stage_3" in fault.value.fix


@pytest.mark.parametrize("strategy", ["ddp", None, {"target": TARGET}])
def test_other_strategies_are_left_as_they_are(strategy: Any) -> None:
    assert with_deepspeed_section({"strategy": strategy}, {"stage": 3}) == {"strategy": strategy}


def test_a_section_that_nothing_reads_is_told() -> None:
    assert "without effect" in str(unread_section({"strategy": "ddp"}, {"stage": 2}))
    assert unread_section({"strategy": "deepspeed"}, {"stage": 2}) is None
    assert unread_section({"strategy": "ddp"}, {}) is None


def test_strategies_of_lightnings_that_start_processes_amid_the_program_are_refused() -> None:
    with pytest.raises(Fault, match=r"CFG08.*ddp_spawn"):
        strategy_of("ddp_spawn")


def test_a_strategy_that_nobody_knows_is_a_fault_with_the_nearest_name() -> None:
    with pytest.raises(Fault, match=r"CFG08.*no strategy fdsp[\s\S]*did you mean fsdp"):
        strategy_of("fdsp")
