"""Which parts of a model are kept in main memory, and that they compute what they did."""

from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.strategies import DDPStrategy, SingleDeviceStrategy
from support.models import tiny_model
from support.sd3 import tiny_conditioner

from ldm.modules.offload import keep_in_main_memory
from lun.callbacks.compute.offload_frozen import OffloadFrozen

CPU = torch.device("cpu")


def hooked(module: torch.nn.Module) -> list[str]:
    return [name for name, part in module.named_modules() if part._forward_pre_hooks]


def test_frozen_parts_are_kept_there_and_the_trained_ones_not() -> None:
    model = tiny_model(cond_stage_trainable=False)
    model.configure_model()
    OffloadFrozen().on_fit_start(None, model)
    network = "first_stage_model.network."
    encoding = [network + name for name in ("encoder", "decoder", "quant_conv", "post_quant_conv")]
    assert hooked(model) == [*encoding, "cond_stage_model"]


def test_they_compute_what_they_did() -> None:
    model = tiny_model(cond_stage_trainable=False)
    model.configure_model()
    pictures = torch.rand(2, 3, 8, 8)
    before = model.first_stage_model.encode_moments(pictures), model.condition_on(["red"]).context
    OffloadFrozen().on_fit_start(None, model)
    after = model.first_stage_model.encode_moments(pictures), model.condition_on(["red"]).context
    assert all(torch.equal(a, b) for a, b in zip(after, before, strict=True))


@pytest.mark.parametrize("absent", [None, "t5", "clip"])
def test_the_encoders_of_stable_diffusion_3_visit_in_parts_and_tell_what_they_did(absent: str | None) -> None:
    encoders = tiny_conditioner(context_dim=24, **({absent: None} if absent else {})).requires_grad_(False)
    before = encoders(["a red fox", ""])
    held: set[int] = set()
    for part in encoders.computing_parts():
        held |= {id(weight) for weight in part.parameters()}
        keep_in_main_memory(part, CPU)
    assert held == {id(weight) for weight in encoders.parameters()}
    after = encoders(["a red fox", ""])
    assert torch.equal(before.context, after.context) and torch.equal(before.pooled, after.pooled)


def test_on_one_device_frozen_parts_never_leave_main_memory_when_the_model_is_moved() -> None:
    model = tiny_model(cond_stage_trainable=False)
    for strategy in (SingleDeviceStrategy("cpu"), DDPStrategy()):
        OffloadFrozen().setup(SimpleNamespace(strategy=strategy), model, "fit")  # type: ignore[arg-type]
    assert len(model.when_settled) == 1  # DDP wants to see all of a model on its device
    model.configure_model()
    model.to("meta")
    assert {weight.device.type for weight in model.cond_stage_model.parameters()} == {"cpu"}
    assert {weight.device.type for weight in model.first_stage_model.network.parameters()} == {"cpu"}
    assert {weight.device.type for weight in model.model.parameters()} == {"meta"}  # type: ignore[union-attr]
