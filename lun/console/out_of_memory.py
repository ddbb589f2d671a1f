"""Running out of memory, reported with what takes it and what to do, the cheapest first."""

from collections.abc import Iterator

import torch

from ldm.errors import Fault
from ldm.lightning_classes import LightningModule, Trainer
from lun.checkpoints.memory_estimate import MemoryEstimate, amount, memory_estimate

SIGNS = ("can't allocate memory", "not enough memory", "out of memory")
"""What torch's allocators say in a plain RuntimeError."""


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in SIGNS)


def out_of_memory(trainer: Trainer, model: LightningModule, batch_size: int, accumulate: int) -> Fault:
    """DEV02 for a fit that ran out of memory, whatever it had built by then."""
    sizes = memory_estimate(model, trainer.optimizers)
    device, own = model.device, _in_use(model.device)
    return Fault(
        "DEV02",
        f"{_name(device)} is out of memory at step {model.position.step + 1}{own}",
        why=f"estimate: {sizes.lines()} = {amount(sizes.checkpoint + sizes.gradients)}; the rest is for {batch_size}"
        f" image{'s' * (batch_size != 1)} at a time",
        fix="in this order, as far as not done yet:\n" + "\n".join(remedies(trainer, sizes, batch_size, accumulate)),
    )


def remedies(trainer: Trainer, sizes: MemoryEstimate, batch_size: int, accumulate: int) -> Iterator[str]:
    """Settings that save memory, those that change nothing of the result first."""
    if batch_size > 1 and batch_size % 2 == 0:
        half, twice = batch_size // 2, 2 * accumulate
        yield (
            f"data.params.batch_size={half} lightning.trainer.accumulate_grad_batches={twice}"
            "   (the same images a step, half the activations)"
        )
    elif batch_size > 1:
        yield f"data.params.batch_size=1 lightning.trainer.accumulate_grad_batches={batch_size * accumulate}"
    yield "model.params.unet_config.params.gradient_checkpointing=true   (activations twice, about a third slower)"
    if str(trainer.precision) == "32-true":
        yield "lightning.trainer.precision=bf16-mixed   (half the activations)"
    if sizes.ema:
        yield f"model.params.use_ema=false   (up to -{amount(sizes.ema)}; an EMA on the CPU takes none of a GPU)"
    if trainer.accelerator is not None and sizes.optimizer >= 2 * sizes.trained:
        yield (
            "model.params.optimizer_config.target=bitsandbytes.optim.AdamW8bit"
            f"   (-{amount(0.75 * sizes.optimizer)}, on a GPU, for a new run)"
        )


def _name(device: torch.device) -> str:
    return "this machine" if device.type == "cpu" else f"GPU {device.index or 0}"


def _in_use(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    free, total = torch.cuda.mem_get_info(device)
    own = torch.cuda.memory_reserved(device)
    return f" ({amount(total)}; {amount(own)} in use by this process, {amount(total - free - own)} by others)"
