import pytest
import torch
from support.on_metal import on_metal

from ldm.transfers import in_double, to_device


def test_what_is_on_its_device_already_is_the_same_tensor() -> None:
    tensor = torch.ones(2)
    assert to_device(tensor, torch.device("cpu")) is tensor


def test_what_goes_to_cuda_goes_by_page_locked_memory_and_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: told.append("page-locked") or self)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device, non_blocking: told.append(f"{device} {non_blocking}"))
    for device in ("cuda", "mps"):
        to_device(torch.ones(2), torch.device(device))
    assert told == ["page-locked", "cuda True", "mps False"]


def test_float64_is_on_the_device_itself_unless_that_has_none() -> None:
    assert in_double(torch.ones(2, device="meta")).device.type == "meta"
    there = in_double(on_metal(torch.ones(2)))
    assert (there.device.type, there.dtype) == ("cpu", torch.float64)
