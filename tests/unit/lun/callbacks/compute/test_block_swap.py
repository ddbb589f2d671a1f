"""Which blocks are streamed, and what is refused beside that."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.models import tiny_model

from ldm.errors import Fault
from lun.callbacks.compute.block_swap import BlockSwap, require_uncompiled
from lun.callbacks.compute.compiled_blocks import CompiledBlocks

LORA = {"target": "ldm.adapters.LoRA", "params": {"rank": 2}}
RULES = {"attention": {"match": "unet.*attn*", "kind": LORA}}


def adapted() -> Any:
    return tiny_model(
        cond_stage_trainable=False,
        adapter_config={"target": "ldm.adapters.Adapters", "params": {"rules": RULES}},
    )


def test_frozen_blocks_of_the_network_stay_in_main_memory_when_a_model_is_moved_and_adapters_do_not() -> None:
    model, swap = adapted(), BlockSwap()
    swap.setup(SimpleNamespace(), model, "fit")  # type: ignore[arg-type]
    model.configure_model()
    model.to("meta")
    blocks = swap.blocks_of(model)
    places = {(weight.requires_grad, weight.device.type) for block in blocks for weight in block.parameters()}
    assert places == {(True, "meta"), (False, "cpu")}
    assert model.model.diffusion_model.network.conv_in.weight.is_meta


def test_the_blocks_are_counted_from_when_training_starts() -> None:
    model, swap = adapted(), BlockSwap(blocks=3)
    model.configure_model()
    swap.stream(model, torch.device("cpu"))
    assert swap.streamed is not None and list(swap.streamed.visitors) == swap.blocks_of(model)
    assert len(swap.streamed.visitors) == 3


@pytest.mark.parametrize("strategy", ["ddp", "fsdp", "deepspeed"])
def test_several_ranks_are_refused_by_name(strategy: str) -> None:
    with pytest.raises(Fault, match=f"BlockSwap cannot be used under the strategy {strategy}"):
        BlockSwap().require_run(adapted(), strategy, "cpu")


def test_a_network_that_trains_whole_is_refused_by_settings_alone_and_at_the_start() -> None:
    model = tiny_model()
    with pytest.raises(Fault, match="nothing to stream"):
        BlockSwap().require_run(model, "one device", "cpu")
    model.configure_model()
    with pytest.raises(Fault, match="nothing to stream"):
        BlockSwap().blocks_of(model)
    BlockSwap().require_run(adapted(), "one device", None)


def test_no_block_is_refused() -> None:
    with pytest.raises(Fault, match="blocks is 0"):
        BlockSwap(blocks=0)


def test_blocks_are_not_streamed_and_compiled_at_once() -> None:
    with pytest.raises(Fault, match="beside CompiledBlocks"):
        require_uncompiled([CompiledBlocks(), BlockSwap()])
    require_uncompiled([BlockSwap()])
