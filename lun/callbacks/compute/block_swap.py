"""A network's frozen blocks in main memory, for those that do not fit on the accelerator even in half precision."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from ldm.errors import Fault
from ldm.lightning_classes import Callback, LightningModule, Trainer
from ldm.models.base import TrainedModel
from ldm.modules.streamed_blocks import StreamedBlocks, blocks_of_network, stay_in_parts
from lun.callbacks.compute.compiled_blocks import CompiledBlocks

log = logging.getLogger(__name__)
WHERE = "lightning.callbacks: BlockSwap"


class BlockSwap(Callback):
    """Streams the frozen weights of the network's blocks from main memory while adapters beside them train.

    Two blocks are on the device at once, the one that computes and the next. Every block comes twice a micro-batch:
    the plan says how many bytes that are, and how long they take at 25 GB/s. Blocks that are streamed compute their
    activations again in the backward pass, whatever `gradient_checkpointing` says. For one device.

    blocks   how many of them, evenly spread; the others stay on the device. null: all
    """

    def __init__(self, blocks: int | None = None) -> None:
        if blocks is not None and blocks < 1:
            where, fix = (
                "lightning.callbacks: BlockSwap.blocks",
                "1 or more, or null for all; or leave the callback out",
            )
            raise Fault("CFG03", f"blocks is {blocks}", where=where, fix=fix)
        self.blocks = blocks
        self.streamed: StreamedBlocks | None = None

    def require_run(self, model: TrainedModel, strategy: str, device: str | None) -> None:
        """Raise `Fault` CFG08 for a strategy under which blocks cannot be streamed, and for a model without any."""
        if strategy != "one device":
            raise Fault(
                "CFG08",
                f"BlockSwap cannot be used under the strategy {strategy}",
                where=WHERE,
                why="a block's weights are on the device only while it computes, where other ranks would look for them",
                fix="one device, or leave the callback out: FSDP2 and ZeRO's stage 3 spread weights over devices",
            )
        parts = model.training_plan().parts
        if not parts or not parts[0].blocks:
            raise _nothing_to_stream()

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if hasattr(pl_module, "when_settled"):
            pl_module.when_settled.append(self.stay)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.stream(pl_module, pl_module.device)
        assert self.streamed is not None
        log.info("note: %d blocks are streamed from main memory", len(self.streamed.visitors))

    def stay(self, model: Any) -> None:
        """Let the blocks' frozen weights lie where they are when the model is moved. Raises as `blocks_of` does."""
        for block in self.blocks_of(model):
            stay_in_parts(block)

    def stream(self, model: Any, device: torch.device) -> None:
        """From here on. Raises `Fault` CFG08 for a model of which no block has frozen weights."""
        blocks, network = self.blocks_of(model), network_of(model)
        assert network is not None
        self.streamed = StreamedBlocks(network, blocks, device)

    def blocks_of(self, model: Any) -> list[nn.Module]:
        """The blocks that are streamed."""
        network = network_of(model)
        blocks = blocks_of_network(network, self.blocks) if network is not None else []
        if not blocks:
            raise _nothing_to_stream()
        return blocks


def require_uncompiled(callbacks: Iterable[Callback]) -> None:
    """Raise `Fault` CFG08 for callbacks of which one streams blocks and another compiles them."""
    kinds = {type(callback) for callback in callbacks}
    if {BlockSwap, CompiledBlocks} <= kinds:
        raise Fault(
            "CFG08",
            "BlockSwap cannot be used beside CompiledBlocks",
            where=WHERE,
            why="both put themselves in the place of a block, and weights that come and go have not been tried within",
            fix="leave one of the two callbacks out",
        )


def network_of(model: Any) -> nn.Module | None:
    """The network that denoises; None of a model that has none."""
    networks: Mapping[str, nn.Module] = model.trainable_networks()
    return networks.get("unet")


def _nothing_to_stream() -> Fault:
    return Fault(
        "CFG08",
        "BlockSwap has nothing to stream",
        where=WHERE,
        why="no block of the network has frozen weights: what trains has to be on the device for its steps",
        fix="train adapters, such as the layer lora, or leave the callback out",
    )
