"""What streaming a network's blocks from main memory costs: bytes over the bus, and so seconds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldm.admission import admitted
from ldm.models.model_parts import PartSize
from ldm.modules.streamed_blocks import evenly
from ldm.util import instantiate_from_config
from lun.callbacks.compute.block_swap import BlockSwap
from lun.plan.fixed_memory import GIB, bytes_of
from lun.strategies.precision import policy_of

BUS = 25e9
"""Bytes a second that PCIe 4.0 with 16 lanes carries into page-locked memory's place on a card, as measured usually."""
TIMES = 2
"""Each block comes for the forward pass, and again for the backward pass."""


@dataclass(frozen=True)
class SwapCost:
    """Blocks that are streamed.

    sizes  bytes of each of them
    count  how many blocks the network has
    """

    sizes: tuple[float, ...]
    count: int

    @property
    def away(self) -> float:
        """Bytes that the device does not hold: two blocks are there at a time."""
        return sum(sorted(self.sizes)[:-2])

    @property
    def carried(self) -> float:
        """Bytes over the bus for each micro-batch."""
        return TIMES * sum(self.sizes)

    def describe(self) -> str:
        """`24 of 24 blocks in main memory (4.78 GiB); 9.56 GiB over the bus a micro-batch: 0.41 s at 25 GB/s`."""
        held = f"{len(self.sizes)} of {self.count} blocks in main memory ({sum(self.sizes) / GIB:.2f} GiB)"
        seconds = f"{self.carried / BUS:.2g} s at {BUS / 1e9:.0f} GB/s, beside which it computes"
        return f"{held}; {self.carried / GIB:.2f} GiB over the bus a micro-batch: {seconds}"


def swap_cost(config: Mapping[str, Any], parts: Sequence[PartSize]) -> SwapCost | None:
    """What a configuration's `BlockSwap` costs, of networks of which the first denoises; None without it."""
    lightning = config.get("lightning") or {}
    recipes = [recipe for recipe in (lightning.get("callbacks") or {}).values() if recipe]
    asked = [recipe for recipe in recipes if admitted(recipe["target"]) is BlockSwap]
    if not asked or not parts:
        return None
    network, swap = parts[0], instantiate_from_config(asked[0])
    precise = (0, network.precise[1])
    frozen = replace(network, parameters=network.parameters - network.trained, trained=0, precise=precise)
    policy = policy_of((lightning.get("trainer") or {}).get("precision"))
    each = bytes_of(frozen, policy) / max(frozen.parameters, 1)
    return SwapCost(tuple(each * size for size in evenly(network.blocks, swap.blocks)), len(network.blocks))
