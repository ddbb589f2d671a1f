"""Which parts of a model are kept in main memory, and that they compute what they did."""

import torch
from support.models import tiny_model

from lun.callbacks.offload_frozen import OffloadFrozen


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
