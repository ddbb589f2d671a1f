"""Callbacks of a configuration by which a step takes other memory: found by their class, whatever they are called."""

from collections.abc import Iterator, Mapping
from typing import Any

from ldm.admission import admitted
from ldm.util import Recipe, instantiate_from_config
from lun.callbacks.compute.compiled_blocks import CompiledBlocks
from lun.callbacks.compute.fused_backward import FusedBackward


def named(config: Mapping[str, Any], kind: type) -> Iterator[Recipe]:
    """The recipes of callbacks of this class."""
    callbacks = (config.get("lightning") or {}).get("callbacks") or {}
    return (recipe for recipe in callbacks.values() if recipe and admitted(recipe["target"]) is kind)


def fuses(config: Mapping[str, Any]) -> bool:
    """Whether a configuration steps within the backward pass."""
    return any(named(config, FusedBackward))


def compiled(config: Mapping[str, Any]) -> CompiledBlocks | None:
    """What compiles blocks of the network; None where nothing does."""
    return next(map(instantiate_from_config, named(config, CompiledBlocks)), None)


def replays(config: Mapping[str, Any]) -> bool:
    """Whether CUDA graphs replay blocks: in windows of one micro-batch, with all activations kept."""
    callback = compiled(config)
    return callback is not None and callback.cuda_graphs


def uncounted(config: Mapping[str, Any]) -> str | None:
    """What a forecast leaves out, in a sentence; None where it counts all that it can."""
    callback = compiled(config)
    if callback is None:
        return None
    without = ["what the compiler saves or adds"]
    if callback.activation_memory_budget < 1:
        without.append("what activation_memory_budget saves")
    if callback.cuda_graphs:
        without.append("what CUDA graphs keep for each size of pictures")
    return f"compiled blocks are counted as they are written, without {' and '.join(without)}"
