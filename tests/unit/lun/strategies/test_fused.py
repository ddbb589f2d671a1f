"""When torch's Adam is stepped by one kernel."""

from typing import Any

import pytest
import torch

from ldm.training.optimizer_settings import keep_kernels
from lun.strategies.combinations import PRECISIONS, Strategy
from lun.strategies.fused import STATED, steps_fused

ADAMW: dict[str, Any] = {"target": "torch.optim.AdamW", "params": {"weight_decay": 0.01}}


@pytest.mark.parametrize(
    ("optimizer", "device", "strategy", "precision", "fused"),
    [
        *((ADAMW, "cuda", "one device", precision, precision != "16-mixed") for precision in PRECISIONS),
        ({"target": "torch.optim.Adam"}, "cuda", "ddp", "32-true", True),
        *((ADAMW, "cpu", "one device", precision, precision != "16-mixed") for precision in PRECISIONS),
        (ADAMW, "mps", "one device", "32-true", False),
        (ADAMW, "cuda", "fsdp", "bf16-mixed", False),
        (ADAMW, "cuda", "deepspeed", "bf16-mixed", False),
        ({"target": "torch.optim.SGD"}, "cuda", "one device", "32-true", False),
        *(({**ADAMW, "params": {name: False}}, "cuda", "one device", "32-true", False) for name in STATED),
    ],
)
def test_adam_is_fused_where_nothing_speaks_against_it(
    optimizer: dict[str, Any], device: str, strategy: Strategy, precision: str, fused: bool
) -> None:
    assert steps_fused(optimizer, device, strategy, precision) is fused


@pytest.mark.parametrize("fused", [False, True])
def test_a_stored_state_goes_on_by_the_kernel_of_this_start(fused: bool) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    before, after = (torch.optim.AdamW([weight], lr=1e-3, fused=kernel) for kernel in (not fused, fused))
    before.step()
    keep_kernels(after)
    after.load_state_dict(before.state_dict())
    assert after.param_groups[0]["fused"] is fused
    assert before.param_groups[0]["fused"] is not fused
    assert after.state[weight]["step"].dtype == torch.float32
    after.step()
    assert after.state[weight]["step"] == 2
