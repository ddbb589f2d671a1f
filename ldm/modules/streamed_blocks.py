"""Blocks of a network that trains, streamed from main memory: their frozen weights visit the device one block ahead."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ldm.modules.gradient_checkpointing import can_compute_twice, computes_twice
from ldm.modules.offload import Visitor
from ldm.torch_internals import keep_own_tensors

T = TypeVar("T")


def blocks_of_network(network: nn.Module, number: int | None = None) -> list[nn.Module]:
    """The blocks with frozen weights that the network's library can compute twice, or `number` of them, evenly spread.

    As the library says it: members of lists below a module that can, the innermost of them.
    """
    holders = [module for module in network.modules() if can_compute_twice(module)]
    lists = [child for holder in holders for child in holder.children() if isinstance(child, nn.ModuleList)]
    members = dict.fromkeys(member for members in lists for member in members)
    blocks = [block for block in members if not any(map(can_compute_twice, block.modules())) and frozen_in(block)]
    return evenly(blocks, number)


def evenly(entries: Sequence[T], number: int | None) -> list[T]:
    """`number` of them, evenly spread; all of them for None, and where there are no more."""
    if number is None or number >= len(entries):
        return list(entries)
    return [entries[place * len(entries) // number] for place in range(number)]


def frozen_in(block: nn.Module) -> list[Tensor]:
    """What visits, each of any shape: parameters that do not train, and buffers."""
    frozen = [parameter for parameter in block.parameters() if not parameter.requires_grad]
    return [*frozen, *block.buffers()] if frozen else []


def stay_in_parts(block: nn.Module) -> None:
    """Let what moves a whole model to a device leave the block's frozen weights where they are, and move the rest."""
    for module in block.modules():
        own = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
        if own and not any(tensor.requires_grad for tensor in own):
            keep_own_tensors(module)


class StreamedBlocks:
    """Blocks whose frozen weights lie in main memory and are on `device` while a block computes.

    In the forward pass a block's weights leave when it is done. Its activations are computed again in the backward pass
    (Chen et al. 2016, arXiv 1604.06174), for which the weights come back and stay until another block's are there. The
    one that came next the last time is copied meanwhile: so two of them are on the device at once. Whatever trains in
    a block stays there.
    """

    def __init__(self, network: nn.Module, blocks: Sequence[nn.Module], device: torch.device) -> None:
        side = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.visitors = {block: Visitor(frozen_in(block), device, side) for block in blocks}
        self._follows: dict[tuple[bool, nn.Module], nn.Module] = {}
        self._last: tuple[bool, nn.Module] | None = None
        self._coming: nn.Module | None = None
        self._staying: nn.Module | None = None
        for block in blocks:
            vars(block)["forward"] = partial(self._forward, block, block.forward)
        for module in network.modules():
            library: Any = module
            if hasattr(library, "enable_gradient_checkpointing") and computes_twice(library):
                library.enable_gradient_checkpointing(self._computed_twice)

    def _computed_twice(self, module: nn.Module, *args: Any) -> Any:
        """What the library computes twice; streamed blocks do that themselves."""
        return module(*args) if module in self.visitors else checkpoint(module, *args, use_reentrant=False)

    def _forward(self, block: nn.Module, forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        times = count()

        def computed(*args: Any, **kwargs: Any) -> Any:
            with self._visit(block, again=next(times) > 0):
                return forward(*args, **kwargs)

        if not torch.is_grad_enabled():
            return computed(*args, **kwargs)
        return checkpoint(computed, *args, use_reentrant=False, **kwargs)

    @contextmanager
    def _visit(self, block: nn.Module, again: bool) -> Iterator[None]:
        if self._staying is not None and self._staying is not block:
            self.visitors[self._staying].leave()
        self._staying = None
        self.visitors[block].arrive()
        self._expect(block, again)
        try:
            yield
        finally:
            if again:
                self._staying = block  # what its backward pass reads of a layer itself, it finds there
            else:
                self.visitors[block].leave()

    def _expect(self, block: nn.Module, again: bool) -> None:
        """Note what came after the last one, and send for what will come after this one by that."""
        if self._last is not None:
            self._follows[self._last] = block
        self._last = (again, block)
        following = self._follows.get(self._last)
        if self._coming not in (None, block, following):
            self.visitors[self._coming].leave()
        self._coming = following if following is not block else None
        if self._coming is not None:
            self.visitors[self._coming].send()
