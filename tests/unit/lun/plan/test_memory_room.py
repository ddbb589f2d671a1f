"""What stays on a device against what it has, and what saves some of it."""

from typing import Any

import pytest

from ldm.models.model_parts import PartSize
from lun.plan.fixed_memory import GIB, FixedMemory, fixed_memory
from lun.plan.memory_room import Room, describe_room, describe_savings, savings

ADAMW = {"target": "torch.optim.AdamW"}
PARTS = [PartSize("UNet", GIB, GIB), PartSize("first stage", GIB // 4, 0)]
FIXED = fixed_memory(PARTS, ADAMW, {})


def test_the_room_is_said_beside_what_stays() -> None:
    fixed = FixedMemory(GIB, GIB, GIB)
    assert describe_room(fixed, Room(4 * GIB, "the card"), {}).startswith(
        "3.00 GiB stay (weights 1.00 + gradients 1.00 + optimizer 1.00) of the 4.0 GiB of the card; "
    )
    assert " MORE THAN the 2.0 GiB of the card" in describe_room(fixed, Room(2 * GIB, "the card"), {})
    assert " over all devices; " in describe_room(fixed, Room(2 * GIB, "the card"), {"strategy": "fsdp"})
    assert describe_room(fixed, None, {}).startswith("3.00 GiB stay (weights 1.00 + gradients 1.00 + optimizer 1.00); ")


def test_what_saves_is_told_where_there_is_little_room() -> None:
    told = describe_savings(FIXED, Room(20 * GIB, "the card"), PARTS, ADAMW, {})
    assert told == (
        "in this order after --base: offload-frozen -1.00, adafactor -8.00, fused-backward -4.00, "
        "bf16-true -4.50, lora -12.00  (GiB, each by itself)"
    )
    assert describe_savings(FIXED, Room(80 * GIB, "the card"), PARTS, ADAMW, {}) is None


@pytest.mark.parametrize(
    ("trainer", "named"),
    [
        ({}, ["bf16", "offload-frozen", "adafactor", "fused-backward", "bf16-true", "lora"]),
        ({"accumulate_grad_batches": 4}, ["bf16", "offload-frozen", "adafactor", "bf16-true", "lora"]),
        ({"precision": "bf16-true"}, ["offload-frozen", "adafactor", "fused-backward", "lora"]),
    ],
    ids=str,
)
def test_only_what_can_be_changed_is_named(trainer: dict[str, Any], named: list[str]) -> None:
    assert [name for name, _ in savings(FIXED, PARTS, ADAMW, trainer)] == named


def test_the_memory_of_this_machine_is_found() -> None:
    found = Room.found("cpu")
    assert found is None or found.total > GIB // 8
    assert Room.found("mps") is None
