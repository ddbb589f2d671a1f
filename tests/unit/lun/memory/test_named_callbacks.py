"""What the callbacks of a configuration change of its memory, and what a forecast of it leaves out."""

from typing import Any

import pytest

from lun.memory.named_callbacks import fuses, replays, uncounted

BLOCKS = "lun.callbacks.CompiledBlocks"


def config(target: str, **params: Any) -> dict[str, Any]:
    return {"lightning": {"callbacks": {"mine": {"target": target, "params": params}, "off": None}}}


def test_callbacks_are_known_by_their_class() -> None:
    assert fuses(config("lun.callbacks.FusedBackward")) and not fuses(config(BLOCKS)) and not fuses({})
    assert replays(config(BLOCKS, cuda_graphs=True)) and not replays(config(BLOCKS)) and not replays({})


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({}, "compiled blocks are counted as they are written, without what the compiler saves or adds"),
        ({"cuda_graphs": True}, "and what CUDA graphs keep for each size of pictures"),
        ({"activation_memory_budget": 0.5}, "and what activation_memory_budget saves"),
    ],
)
def test_what_compiled_blocks_take_otherwise_is_said_not_to_be_counted(params: dict[str, Any], told: str) -> None:
    assert (uncounted(config(BLOCKS, **params)) or "").endswith(told)


def test_without_compiled_blocks_nothing_is_left_out() -> None:
    assert uncounted(config("lun.callbacks.FusedBackward")) is None
