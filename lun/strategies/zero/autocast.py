"""DeepSpeed's half precision with autocast around it, so that what has to be in fp32 is."""

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.plugins.precision import DeepSpeedPrecision
from torch import Tensor, nn

from lun.loop.lightning_internals import ForwardRedirection
from lun.strategies.zero.loss_scaler import ENTRY, load_scale_state, scale_state


class ZeroPrecision(DeepSpeedPrecision):
    """Weights in half precision for forward and backward, fp32 ones in the sharded optimizer.

    policy   one of `lun.strategies.precision`
    device   "cpu" or "cuda"

    Lightning's own casts every batch to half precision and lets the engine divide by the window's micro-batches what
    Lightning has divided already; and no autocast keeps losses and norms in fp32.
    """

    def __init__(self, policy: Any, device: str) -> None:
        super().__init__(policy.name)
        self.device = device
        self.policy = policy
        self.loss_scaler: Any = None  # the engine's, once there is one

    def tensor_init_context(self) -> AbstractContextManager[None]:
        """Networks are built and read in fp32, by bf16-true as well: the sharded fp32 weights come from them."""
        return nullcontext()

    def convert_module(self, module: nn.Module) -> nn.Module:
        """Left to the engine."""
        return module

    def convert_input(self, data: Any) -> Any:
        return data

    @contextmanager
    def forward_context(self) -> Generator[None, None, None]:
        half = self._desired_dtype
        with torch.autocast(self.device, half) if half != torch.float32 else nullcontext():
            yield

    def backward(self, tensor: Tensor, model: LightningModule, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        super().backward(tensor, model, optimizer, *args, scale_wrt_gas=False, **kwargs)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        if getattr(self.loss_scaler, "dynamic", False):
            checkpoint[ENTRY] = scale_state(self.loss_scaler)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """A scale that starts afresh would cost the first steps, each of which is skipped until it fits again."""
        if getattr(self.loss_scaler, "dynamic", False) and checkpoint.get(ENTRY):
            load_scale_state(self.loss_scaler, checkpoint[ENTRY])


class InsideEngine(ForwardRedirection):
    """Calls a step through the engine, with the precision's context within: the engine ends one that is around it."""

    def __init__(self, precision: ZeroPrecision) -> None:
        self.precision = precision

    def __call__(
        self, wrapper_module: nn.Module, original_module: LightningModule, method_name: str, *args: Any, **kwargs: Any
    ) -> Any:
        def forward(*step_args: Any, **step_kwargs: Any) -> Any:
            with self.precision.forward_context():
                return getattr(original_module, method_name)(*step_args, **step_kwargs)

        own = vars(original_module)
        own["forward"] = forward
        try:
            return wrapper_module(*args, **kwargs)
        finally:
            del own["forward"]
