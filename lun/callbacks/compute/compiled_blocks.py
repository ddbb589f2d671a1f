"""Blocks of the trained network compiled, for faster steps once they are."""

import inspect
import logging
import typing
from collections.abc import Sequence
from typing import Any

import torch

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.lightning_classes import Callback, LightningModule, Trainer
from ldm.modules.regional_compilation import WHERE, compile_blocks, keep_compiled, no_blocks, require_compiler

log = logging.getLogger(__name__)

REFUSED = {"deepspeed": "DeepSpeed gathers weights and reduces gradients by hooks of its own, within the blocks"}


class CompiledBlocks(Callback):
    """Compiles the blocks of the network that trains by torch.compile, each by itself, in the first step.

    Steps alone run compiled: previews, samples and validation, whose sizes are their own, run as they are written. What
    is compiled is kept for later runs in the program's cache (`LUN_CACHE`), in `TORCHINDUCTOR_CACHE_DIR` where that is
    set. On a CPU blocks with convolutions are faster as written, and stay so. Weights, checkpoints, averages and random
    numbers are those of a run without it, so that a run may go on with it or without it; losses agree to rounding. On
    one device, under DDP and under FSDP2, whose hooks stand around the blocks; each rank compiles for itself.

    dynamic                   one graph serves pictures and batches of every size. False compiles each size by itself:
                              faster code, for sets of few sizes
    activation_memory_budget  share of a block's activations, 0 to 1, that is kept for the backward pass; the others
                              are computed again there, cheapest first. For networks without gradient checkpointing,
                              which keeps none within a block
    cuda_graphs               replay a block's kernels as one launch, for steps of 1 to 4 pictures, in which a GPU waits
                              for launches; with `dynamic: false` all of the network's, which is compiled as a whole.
                              Each size of pictures has its own graphs, which keep memory. For one CUDA or ROCm
                              device, windows of one micro-batch, and no gradient checkpointing
    """

    def __init__(self, dynamic: bool = True, activation_memory_budget: float = 1.0, cuda_graphs: bool = False) -> None:
        if not 0 <= activation_memory_budget <= 1:
            why = f"it is a share, from 0 to 1, not {activation_memory_budget}"
            fix = "activation_memory_budget=0.5"
            raise _refusal("activation_memory_budget is no share of the activations", why, fix)
        self.dynamic = dynamic
        self.activation_memory_budget = activation_memory_budget
        self.cuda_graphs = cuda_graphs

    def require_run(self, model: Any, strategy: str, device: str | None) -> None:
        """Raise `Fault` for a run that this cannot speed up: CFG08 for its settings, DEP01 without a compiler.

        strategy  a row of `lun.strategies.combinations.TABLE`
        device    what it trains on, "cpu", "cuda", or None where that is not known yet
        """
        if strategy in REFUSED:
            fix = "one device, strategy ddp or fsdp, or leave the callback out"
            raise _refusal(f"compiled blocks cannot be used with strategy {strategy}", REFUSED[strategy], fix)
        if getattr(model, "quantisation", None) is not None:
            why = "a quantised matrix is decoded by code of its own, which has not been tried within compiled blocks"
            raise _refusal("compiled blocks need an unquantised base", why, "model.params.base_config=null")
        recipes = [part.recipe for part in model.part_recipes().values()] if hasattr(model, "part_recipes") else []
        if not any(hasattr(_built_by(recipe["target"]), "repeated_blocks") for recipe in recipes):
            raise no_blocks(type(model).__name__)
        if self.cuda_graphs:
            _require_replayable(model, strategy, device)
        if device is not None:
            require_compiler(device)

    def require_whole_steps(self, execution: Any, model: Any, callbacks: Sequence[Callback]) -> None:
        """Raise `Fault` CFG08 for windows whose gradients CUDA graphs would write over."""
        window = execution.settings.get("accumulate_grad_batches") or 1
        if self.cuda_graphs and window > 1:
            why = "a graph writes gradients to where those of the micro-batch before lie, which are to be added to"
            raise _no_graphs(f"with windows of {window} micro-batches", why, "--accumulate_grad_batches 1")

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Raises `Fault` CFG08 for a model whose networks name no blocks."""
        keep_compiled()
        gains = pl_module.device.type != "cpu"  # there a resnet block becomes a fifth slower, others a tenth faster
        count = compile_blocks(pl_module, self.dynamic, self.activation_memory_budget, self.cuda_graphs, gains)
        what = "the network is" if self.cuda_graphs and not self.dynamic else f"{count} blocks are"
        log.info("note: %s compiled in the first step, which takes minutes where nothing is kept yet", what)
        if not gains:
            log.info("note: on a CPU blocks with convolutions stay as written, which is faster")

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Without this mark each graph would begin a step of its own, and write over what others keep for this one."""
        if self.cuda_graphs:
            torch.compiler.cudagraph_mark_step_begin()


def _require_replayable(model: Any, strategy: str, device: str | None) -> None:
    """Raise `Fault` CFG08 for a run whose blocks CUDA graphs cannot replay, or have not been tried to."""
    twice = any(part.computes_twice for part in model.training_plan().parts)
    for wrong, what, why, fix in (
        (device not in (None, "cuda"), f"on {device}", "there is no CUDA or ROCm device", ""),
        (strategy != "one device", f"with strategy {strategy}", _RANKS, "one device"),
        (twice, "with gradient checkpointing", _TWICE, "no-checkpointing after --base, if there is memory"),
    ):
        if wrong:
            raise _no_graphs(what, why, fix)


_RANKS = "what ranks do between the blocks of a step has not been tried around them"
_TWICE = "a block's graph would run again in the backward pass, over what other graphs keep for it"


def _no_graphs(what: str, why: str, fix: str) -> Fault:
    without = "lightning.callbacks.compiled_blocks.params.cuda_graphs=false"
    return _refusal(f"CUDA graphs cannot be used {what}", why, f"{fix}, or {without}" if fix else without)


def _built_by(target: str) -> Any:
    """The class of what a recipe builds, where its target or the annotation of that shows it."""
    kind = admitted(target)
    return kind if inspect.isclass(kind) else typing.get_type_hints(kind).get("return")


def _refusal(what: str, why: str, fix: str) -> Fault:
    return Fault("CFG08", what, where=WHERE, why=why, fix=fix)
