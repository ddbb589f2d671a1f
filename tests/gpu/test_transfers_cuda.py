"""A batch travels to the GPU while the step before is computed, and arrives whole; `-m gpu`."""

import pytest
import torch

from ldm.transfers import _copying, to_device_beside

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or ROCm device")]

LONG = 2_000_000_000
"""Cycles that a step stands for: a second at 2 GHz."""


@pytest.mark.parametrize("pinned", [True, False], ids=["page-locked", "pageable"])
def test_it_has_arrived_before_the_step_that_is_computed_ends(pinned: bool) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    bytes_of_batch = torch.randint(0, 256, (8, 512, 512, 3), dtype=torch.uint8)
    batch = {"image": bytes_of_batch.pin_memory() if pinned else bytes_of_batch}
    to_device_beside(batch, device)  # what is made once
    torch.cuda.synchronize()
    torch.cuda._sleep(LONG)
    arrived = to_device_beside(batch, device)["image"]
    _copying(device).synchronize()
    assert not torch.cuda.current_stream(device).query()
    assert torch.equal(arrived.cpu(), bytes_of_batch)


def test_batches_that_are_let_go_while_they_are_read_are_not_written_over() -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    batches = [torch.full((1 << 22,), number, dtype=torch.uint8).pin_memory() for number in range(8)]
    found = []
    for batch in batches:
        there = to_device_beside({"image": batch}, device)["image"]
        torch.cuda._sleep(LONG // 100)
        found.append(there.float().mean())
        del there
    assert [float(mean) for mean in found] == list(range(8))
