"""Blocks of the trained network compiled, for faster steps once they are."""

import inspect
import logging
import typing
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.modules.regional_compilation import WHERE, compile_blocks, keep_compiled, no_blocks, require_compiler

log = logging.getLogger(__name__)

REFUSED = {
    "ddp": "reducing gradients between ranks has not been tried around compiled blocks",
    "fsdp": "gathering the weights of a shard has not been tried around compiled blocks",
    "deepspeed": "DeepSpeed gathers weights and reduces gradients by hooks of its own, within the blocks",
}


class CompiledBlocks(Callback):
    """Compiles the blocks of the network that trains by torch.compile, each by itself, in the first step.

    Steps alone run compiled: previews, samples and validation, whose sizes are their own, run as they are written. What
    is compiled is kept for later runs in the program's cache (`LUN_CACHE`), in `TORCHINDUCTOR_CACHE_DIR` where that is
    set. Weights, checkpoints, averages and random numbers are those of a run without it, so that a run may go on with
    it or without it; losses agree to rounding. On one device.

    dynamic                   one graph serves pictures and batches of every size. False compiles each size by itself:
                              faster code, for sets of few sizes
    activation_memory_budget  share of a block's activations, 0 to 1, that is kept for the backward pass; the others
                              are computed again there, cheapest first. For networks without gradient checkpointing,
                              which keeps none within a block
    """

    def __init__(self, dynamic: bool = True, activation_memory_budget: float = 1.0) -> None:
        if not 0 <= activation_memory_budget <= 1:
            why = f"it is a share, from 0 to 1, not {activation_memory_budget}"
            fix = "activation_memory_budget=0.5"
            raise _refusal("activation_memory_budget is no share of the activations", why, fix)
        self.dynamic = dynamic
        self.activation_memory_budget = activation_memory_budget

    def require_run(self, model: Any, strategy: str, device: str | None) -> None:
        """Raise `Fault` for a run that this cannot speed up: CFG08 for its settings, DEP01 without a compiler.

        strategy  a row of `lun.strategies.combinations.TABLE`
        device    what it trains on, "cpu", "cuda", or None where that is not known yet
        """
        if strategy in REFUSED:
            fix = "--devices 1, or leave the callback out"
            raise _refusal(f"compiled blocks cannot be used with strategy {strategy}", REFUSED[strategy], fix)
        if getattr(model, "quantisation", None) is not None:
            why = "a quantised matrix is decoded by code of its own, which has not been tried within compiled blocks"
            raise _refusal("compiled blocks need an unquantised base", why, "model.params.base_config=null")
        recipes = [part.recipe for part in model.part_recipes().values()] if hasattr(model, "part_recipes") else []
        if not any(hasattr(_built_by(recipe["target"]), "repeated_blocks") for recipe in recipes):
            raise no_blocks(type(model).__name__)
        if device is not None:
            require_compiler(device)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raises `Fault` CFG08 for a model whose networks name no blocks."""
        keep_compiled()
        count = compile_blocks(pl_module, self.dynamic, self.activation_memory_budget)
        log.info("note: %d blocks are compiled in the first step, which takes minutes where none are kept yet", count)
        if pl_module.device.type == "cpu":
            log.info("note: on a CPU compiled blocks are no faster than blocks as written")


def _built_by(target: str) -> Any:
    """The class of what a recipe builds, where its target or the annotation of that tells."""
    kind = admitted(target)
    return kind if inspect.isclass(kind) else typing.get_type_hints(kind).get("return")


def _refusal(what: str, why: str, fix: str) -> Fault:
    return Fault("CFG08", what, where=WHERE, why=why, fix=fix)
