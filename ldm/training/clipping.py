"""Which optimizers can have their gradients clipped."""

from collections.abc import Iterable

from torch.optim import Optimizer

from ldm.errors import Fault
from ldm.torch_internals import scales_inside_its_step


def require_clippable(optimizers: Iterable[Optimizer], clip: float | None, scaled: bool) -> None:
    """Raise `Fault` CFG08 if a fused optimizer would have to clip: it divides by float16's loss scale only inside."""
    fused = [one for one in optimizers if scales_inside_its_step(one)]
    if clip and scaled and fused:
        name = type(fused[0]).__name__
        raise Fault(
            "CFG08",
            f"a fused {name} cannot clip gradients under 16-mixed",
            where="model.params.optimizer_config.params.fused",
            why="it divides by the loss scale inside its step, so before it there is nothing to measure",
            fix="fused: false, or lightning.trainer.precision=bf16-mixed, or lightning.trainer.gradient_clip_val=null",
        )
