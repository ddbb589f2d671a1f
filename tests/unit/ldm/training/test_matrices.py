"""Adafactor and Muon over convolutions: the same numbers as torch's over the matrices that these are."""

from typing import Any

import pytest
import torch
from diffusers import UNet2DConditionModel
from torch import nn

from ldm.training.matrices import Adafactor, Muon

CASES: list[tuple[Any, Any, dict[str, Any]]] = [
    (Adafactor, torch.optim.Adafactor, {"eps": (None, 1e-3)}),
    (Muon, torch.optim.Muon, {"adjust_lr_fn": "match_rms_adamw", "weight_decay": 0.1}),
]


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("ours", "torchs", "params"), CASES, ids=["Adafactor", "Muon"])
def test_a_convolution_is_stepped_as_its_matrix(ours: Any, torchs: Any, params: Any, memory: Any) -> None:
    start = torch.randn(6, 4, 3, 3, generator=torch.Generator().manual_seed(0))
    kernel, matrix = nn.Parameter(start.clone(memory_format=memory)), nn.Parameter(start.clone().flatten(1))
    one, other = ours([kernel], lr=0.1, **params), torchs([matrix], lr=0.1, **params)
    for seed in range(3):
        gradient = torch.randn(start.shape, generator=torch.Generator().manual_seed(seed))
        kernel.grad, matrix.grad = gradient.clone(memory_format=memory), gradient.flatten(1)
        one.step()
        other.step()
    torch.testing.assert_close(kernel.detach().flatten(1), matrix.detach(), rtol=1e-5, atol=1e-6)
    assert kernel.grad is not None and kernel.grad.shape == kernel.shape and kernel.is_contiguous(memory_format=memory)


def test_adafactors_step_has_the_size_of_the_learning_rate() -> None:
    weight = nn.Parameter(torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) * 0.02)
    before = weight.detach().clone()
    weight.grad = torch.randn(64, 64, generator=torch.Generator().manual_seed(1))
    Adafactor([weight], lr=1e-3).step()
    assert (weight.detach() - before).square().mean().sqrt() == pytest.approx(1e-3, rel=0.1)


def test_the_states_of_stable_diffusion_1s_unet_take_less_than_10_megabytes() -> None:
    with torch.device("meta"):
        weights = list(UNet2DConditionModel(cross_attention_dim=768).parameters())
    for weight in weights:
        weight.grad = weight.detach()
    optimizer = Adafactor(weights)
    with pytest.raises(RuntimeError, match="meta"):  # which begins with all states, and then wants numbers
        optimizer.step()
    assert len(optimizer.state) == len(weights) == 686
    assert sum(value.nbytes for state in optimizer.state.values() for value in state.values()) < 10e6
