from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ldm.models.base_weights import BaseWeights
from ldm.position import Position
from ldm.training.split_weights import SplitWeights
from lun.console.out_of_memory import is_out_of_memory, out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"),
    ],
)
def test_what_allocators_say_is_recognised(error):
    assert is_out_of_memory(error)


def test_torch_on_this_cpu_says_it_as_expected():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_out_of_memory(caught.value)


@pytest.mark.parametrize(
    "error", [RuntimeError("shape '[2]' is invalid"), ValueError("out of memory"), OSError(28, "x")]
)
def test_other_errors_are_not(error):
    assert not is_out_of_memory(error)


def model() -> nn.Module:
    module = nn.Linear(1000, 1000, bias=False)
    module.position = Position(step=7)
    module.device = torch.device("cpu")
    averages = {"w": torch.ones(1000, 1000)}
    module.model_ema = SimpleNamespace(state_dict=lambda: averages, resume_state=lambda: {"step": 7})
    module.base, module.split_weights = BaseWeights(), SplitWeights()
    return module


def test_the_message_estimates_and_orders_the_remedies():
    module = model()
    adamw = torch.optim.AdamW(module.parameters())
    trainer = SimpleNamespace(optimizers=[adamw], precision="32-true", accelerator="cpu")
    fault = out_of_memory(trainer, module, batch_size=4, accumulate=3)
    assert fault.id == "DEV02" and fault.what == "this machine is out of memory at step 8"
    assert "weights 4.0 MB + gradients 4.0 MB + optimizer 8.0 MB + EMA 4.0 MB = 20.0 MB" in fault.why
    assert "4 images at a time" in fault.why
    remedies = fault.fix.splitlines()[1:]
    assert [line.split("=")[0] for line in remedies] == [
        "data.params.batch_size",
        "model.params.unet_config.params.gradient_checkpointing",
        "lightning.trainer.precision",
        "model.params.use_ema",
        "model.params.optimizer_config.target",
    ]
    assert remedies[0].startswith("data.params.batch_size=2 lightning.trainer.accumulate_grad_batches=6")


@pytest.mark.parametrize(("batch_size", "first"), [(1, "model.params.unet"), (3, "data.params.batch_size=1 ")])
def test_a_batch_is_halved_only_where_it_can_be(batch_size, first):
    trainer = SimpleNamespace(optimizers=[], precision="bf16-mixed", accelerator="cpu")
    fault = out_of_memory(trainer, model(), batch_size, 1)
    assert fault.fix.splitlines()[1].startswith(first)
    assert "precision" not in fault.fix
