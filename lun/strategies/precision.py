"""What a config's `precision` may be: a name, or a recipe of one of these classes where its settings shall differ."""

from dataclasses import dataclass
from typing import Any

import torch

from ldm.admission import configurable
from ldm.lightning_classes import Precision
from ldm.util import instantiate_from_config, is_recipe
from lun.strategies.combinations import precision_name


@configurable
@dataclass(frozen=True)
class Fp32:
    """Everything in float32."""

    name = "32-true"

    def plugin(self, device: str) -> Precision:
        """Lightning's plugin for "cpu" or "cuda"."""
        from lightning.pytorch.plugins.precision import Precision

        return Precision()


@configurable
@dataclass(frozen=True)
class Bf16Mixed:
    """float32 weights; networks compute in bfloat16.

    frozen_half   keep what does not train (text encoder, first stage) in bfloat16
    """

    frozen_half: bool = False
    name = "bf16-mixed"

    def plugin(self, device: str) -> Precision:
        from lun.strategies.half import Mixed

        return Mixed("bf16-mixed", device, frozen_half=self.frozen_half)


@configurable
@dataclass(frozen=True)
class Fp16Mixed:
    """float32 weights; networks compute in float16, whose gradients are scaled up so that small ones do not vanish.

    Where gradients overflow, a step is left out and the scale halved. A fine-tune is short, and one such step in a
    thousand would wear the scale down if it took torch's 2000 steps to grow again: hence the shorter interval.

    frozen_half       keep what does not train in float16, except for the first stage, which overflows there
    init_scale        what gradients are multiplied with at first
    growth_interval   steps without overflow after which that doubles
    """

    frozen_half: bool = False
    init_scale: float = 65536.0
    growth_interval: int = 500
    name = "16-mixed"

    def plugin(self, device: str) -> Precision:
        from lun.strategies.half import Mixed

        scaler = torch.amp.GradScaler(device, init_scale=self.init_scale, growth_interval=self.growth_interval)
        return Mixed("16-mixed", device, scaler, self.frozen_half)


@configurable
@dataclass(frozen=True)
class Bf16True:
    """bfloat16 weights and gradients, updated with stochastic rounding: 12 bytes a parameter with AdamW, not 16."""

    name = "bf16-true"

    def plugin(self, device: str) -> Precision:
        from lun.strategies.half import RoundedWeights

        return RoundedWeights(device)


@configurable
@dataclass(frozen=True)
class Bf16Master:
    """bfloat16 weights and gradients, updated as fp32 ones: 14 bytes a parameter with AdamW, none of them lost.

    What the weights lack of fp32 lies beside the optimizer; gradients of several micro-batches are summed in fp32,
    which takes 2 bytes more.
    """

    name = "bf16-master"

    def plugin(self, device: str) -> Precision:
        from lun.strategies.half import MasterWeights

        return MasterWeights(device)


NAMES: dict[str, Any] = {policy.name: policy for policy in (Fp32, Bf16Mixed, Fp16Mixed, Bf16True, Bf16Master)}


def policy_of(given: Any) -> Any:
    """The policy that a name or a recipe stands for. Raises `Fault` CFG08 for a name outside `PRECISIONS`."""
    return instantiate_from_config(given) if is_recipe(given) else NAMES[precision_name(given)]()
