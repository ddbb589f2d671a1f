"""Lightning's precision plugins as fine-tuning needs them: frozen parts in half, weights in half that still learn."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.plugins.precision import MixedPrecision, Precision
from torch import nn
from torch.optim import Optimizer

from ldm.diffusion.draws import key
from ldm.modules.rounding import keep_state_precise, rounded_step


class Mixed(MixedPrecision):
    """fp32 weights under autocast; `frozen_half` keeps those that do not train in the autocast's own dtype."""

    def __init__(self, precision: Any, device: str, scaler: Any = None, frozen_half: bool = False) -> None:
        super().__init__(precision, device, scaler)
        self.frozen_half = frozen_half

    def convert_module(self, module: nn.Module) -> nn.Module:
        half = torch.bfloat16 if self.precision == "bf16-mixed" else torch.float16
        if self.frozen_half:
            frozen_to(module, half)
        return module

    def clip_gradients(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
        """Lightning refuses fused optimizers in any mixed precision; without a scaler their gradients are plain."""
        clip = super().clip_gradients if self.scaler else partial(Precision.clip_gradients, self)
        clip(optimizer, *args, **kwargs)


class RoundedWeights(Precision):
    """Weights in bfloat16 but adapters', as gradients; stepped in fp32, rounded at random (`ldm.modules.rounding`).

    Autocast stays around it, so that losses, norms and softmax are in fp32; buffers, such as the noise schedule, stay
    what they are. What is drawn follows from (seed, step), so that a resume repeats it and replicas agree.
    """

    precision = "bf16-true"

    def __init__(self, device: str) -> None:
        self.device = device

    def convert_module(self, module: nn.Module) -> nn.Module:
        for parameter in parameters_for(module, torch.bfloat16):
            parameter.data = parameter.data.to(torch.bfloat16)
        return module

    def connect(self, model: nn.Module, optimizers: list[Optimizer], lr_schedulers: list[Any]) -> tuple[Any, Any, Any]:
        for optimizer in optimizers:
            keep_state_precise(optimizer)
        return super().connect(model, optimizers, lr_schedulers)

    @contextmanager
    def forward_context(self) -> Generator[None, None, None]:
        with torch.autocast(self.device, torch.bfloat16):
            yield

    def optimizer_step(self, optimizer: Any, model: LightningModule, closure: Callable[[], Any], **kwargs: Any) -> Any:
        result = closure()
        self._after_closure(model, optimizer)
        if result is not None or not model.automatic_optimization:
            index = model.trainer.optimizers.index(optimizer)
            generator = torch.Generator(model.device)
            generator.manual_seed(key(model.seed, "rounding", model.position.step, index))
            rounded_step(optimizer, generator)
        return result


def frozen_to(module: nn.Module, half: torch.dtype) -> None:
    """Let what does not train be in `half`, where it may be."""
    for parameter in parameters_for(module, half):
        if not parameter.requires_grad:
            parameter.data = parameter.data.to(half)


def parameters_for(module: nn.Module, half: torch.dtype) -> Iterator[nn.Parameter]:
    """The parameters below `module` that may be in `half`.

    Parts stay out that overflow in it, and those that say they stay in float32, as adapters do, frozen ones too.
    """
    if getattr(module, "keeps_float32", False):
        return
    if half == torch.float16 and getattr(module, "overflows_in_float16", False):
        return
    yield from module.parameters(recurse=False)
    for child in module.children():
        yield from parameters_for(child, half)
