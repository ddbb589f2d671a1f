"""Lightning's precision plugins as fine-tuning needs them: frozen parts in half, weights in half that still learn."""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.plugins.precision import MixedPrecision, Precision
from torch import nn
from torch.optim import Optimizer

from ldm.diffusion.draws import key
from ldm.modules.rounding import keep_state_precise, rounded_step
from ldm.training.split_weights import SplitWeights


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


class HalfWeights(Precision):
    """Weights in bfloat16 but adapters', as gradients; stepped in fp32, as `step` has it.

    Autocast stays around it, so that losses, norms and softmax are in fp32; buffers, such as the noise schedule, stay
    what they are.
    """

    def __init__(self, device: str) -> None:
        self.device = device

    def step(self, optimizer: Optimizer, model: Any, part: int | None = None) -> None:
        """A step of the weights that `convert_module` made bfloat16; `part` numbers those that are stepped alone."""
        raise NotImplementedError

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
        self.before_step()
        self._after_closure(model, optimizer)
        if result is not None or not model.automatic_optimization:
            self.step(optimizer, model)
        return result

    def before_step(self) -> None:
        """When the gradients of a window are there, before anybody looks at them."""


class RoundedWeights(HalfWeights):
    """Steps that are rounded at random (`ldm.modules.rounding`).

    What is drawn follows from (seed, step), so that a resume repeats it and replicas agree.
    """

    precision = "bf16-true"

    def step(self, optimizer: Optimizer, model: Any, part: int | None = None) -> None:
        index = model.trainer.optimizers.index(optimizer)
        generator = torch.Generator(model.device)
        place = () if part is None else (part,)
        generator.manual_seed(key(model.seed, "rounding", model.position.step, index, *place))
        rounded_step(optimizer, generator)


class MasterWeights(HalfWeights):
    """Steps of fp32 weights, whose lower halves lie beside the optimizer (`ldm.training.split_weights`).

    Gradients of several micro-batches are summed in fp32, and clipped in it. Checkpoints and averages are fp32.
    """

    precision = "bf16-master"

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self.weights = SplitWeights()
        self._stop_summing: Callable[[], None] | None = None

    def convert_module(self, module: nn.Module) -> nn.Module:
        for parameter in parameters_for(module, torch.bfloat16):
            if parameter.requires_grad:
                self.weights.take(parameter)
        cast(Any, module).split_weights = self.weights
        return super().convert_module(module)

    def connect(self, model: nn.Module, optimizers: list[Optimizer], lr_schedulers: list[Any]) -> tuple[Any, Any, Any]:
        if cast(Any, model).trainer.accumulate_grad_batches > 1:
            self._stop_summing = self.weights.sum_gradients()
        return super().connect(model, optimizers, lr_schedulers)

    def clip_grad_by_norm(self, optimizer: Optimizer, clip_val: int | float) -> None:
        self.weights.clip(self.main_params(optimizer), clip_val)

    def clip_grad_by_value(self, optimizer: Optimizer, clip_val: int | float) -> None:
        self.weights.clip(self.main_params(optimizer), clip_val, by_value=True)

    def before_step(self) -> None:
        self.weights.bring_gradients()

    def step(self, optimizer: Optimizer, model: Any, part: int | None = None) -> None:
        self.weights.step(optimizer)

    def teardown(self) -> None:
        if self._stop_summing is not None:
            self._stop_summing()
            self._stop_summing = None


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
