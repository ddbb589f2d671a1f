"""A frozen autoencoder is kept out of float16."""

import torch
from torch import Tensor, nn

from ldm.modules.overflow import outside_float16


def computed(network: nn.Module, x: Tensor, dtype: torch.dtype) -> torch.dtype:
    with torch.no_grad(), torch.autocast("cpu", dtype), outside_float16(network, x) as safe:
        return network(safe).dtype


def test_under_float16_it_computes_in_fp32() -> None:
    assert computed(nn.Linear(2, 2), torch.ones(1, 2), torch.float16) == torch.float32
    assert computed(nn.Linear(2, 2), torch.ones(1, 2).half(), torch.float16) == torch.float32


def test_weights_that_are_half_already_compute_in_bfloat16() -> None:
    assert computed(nn.Linear(2, 2).half(), torch.ones(1, 2), torch.float16) == torch.bfloat16


def test_under_bfloat16_nothing_changes() -> None:
    assert computed(nn.Linear(2, 2), torch.ones(1, 2), torch.bfloat16) == torch.bfloat16


def test_a_network_that_is_trained_is_left_alone() -> None:
    network = nn.Linear(2, 2)
    with torch.autocast("cpu", torch.float16), outside_float16(network, torch.ones(1, 2)) as safe:
        assert network(safe).dtype == torch.float16


def test_a_number_too_large_for_float16_survives() -> None:
    network = nn.Linear(1, 1, bias=False)
    nn.init.constant_(network.weight, 1e5)
    with torch.no_grad(), torch.autocast("cpu", torch.float16), outside_float16(network, torch.ones(1, 1)) as safe:
        assert network(safe).item() == 1e5
