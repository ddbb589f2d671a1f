"""Captions and flips follow the slot: any ranks, micro-batches, workers or resume give the same, repeats differ."""

import pytest
import torch
from support.board import put_board

from ldm.position import Position
from lun.data.keyed import Keyed
from lun.data.loader import Loader
from lun.data.local import Local
from lun.data.order.position_sampler import Order, PositionBatchSampler, Window

RULES = {"shuffle_tag_p": 0.8, "tag_dropout_p": 0.3, "prefix_dropout": {"t1": 0.9}, "tag_warmup_steps": 3}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = put_board(
        tmp_path_factory.mktemp("set"),
        {str(i): {"path": f"{i}.png", "tags": [f"t{i}{letter}" for letter in "abcde"]} for i in range(5)},
    )
    return Local(str(root), size=4, metadata_params=RULES)


def seen(data, steps, start=0, workers=0, **window):
    """slot -> (caption, pixels) of `steps` optimizer steps of all ranks from slot `start` on"""
    found = {}
    world = window.pop("world_size", 1)
    for rank in range(world):
        one = Window(world_size=world, rank=rank, **window)
        position = Position(slot=start, step=start // one.global_batch)
        batches = PositionBatchSampler(Order(len(data), 3), one, position, steps * one.accumulate)
        loader = iter(Loader(Keyed(data, 3), batches, num_workers=workers, pin_memory=False))
        for _ in range(steps * one.accumulate):
            batch = next(loader)
            for slot, caption, image in zip(batch["slot"].tolist(), batch["caption"], batch["image"], strict=True):
                assert slot not in found
                found[slot] = (caption, image.sum().item())
    return found


@pytest.mark.parametrize(
    "window",
    [
        {"batch_size": 1, "accumulate": 12},
        {"batch_size": 3, "accumulate": 2, "world_size": 2},
        {"batch_size": 4, "world_size": 3},
        {"batch_size": 6, "accumulate": 2, "workers": 2},
    ],
)
def test_the_same_global_batch_reads_the_same_however_it_is_shared(data, window):
    workers = window.get("workers", 0)
    window = {name: value for name, value in window.items() if name != "workers"}
    assert seen(data, 2, workers=workers, **window) == seen(data, 2, batch_size=12)


def test_a_resumed_run_reads_on_where_it_stopped(data):
    whole = seen(data, 4, batch_size=4)
    assert seen(data, 2, batch_size=4) | seen(data, 2, start=8, batch_size=4) == whole


def test_a_picture_that_comes_again_has_other_draws(data):
    captions = {slot: caption for slot, (caption, _) in seen(data, 10, batch_size=5).items()}
    order = Order(len(data), 3)
    of_first = [captions[slot] for slot in captions if order.key(slot).example == 0]
    assert len(of_first) == 10
    assert len(set(of_first)) > 5


def test_captions_are_drawn_without_touching_other_random_numbers(data):
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    assert Keyed(data, 3)[7, 0]["caption"] != ""  # the DataLoader around it draws a seed for its workers
    assert torch.equal(torch.rand(3), expected)
