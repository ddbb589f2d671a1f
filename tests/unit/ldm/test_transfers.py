from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from support.on_metal import on_metal

from ldm.transfers import _copying, in_double, to_device, to_device_beside


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


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What streams and tensors are told, in order, where there is no GPU."""
    words: list[str] = []

    @contextmanager
    def on(stream: str) -> Iterator[None]:
        words.append(f"on {stream}")
        yield
        words.append(f"off {stream}")

    computing = SimpleNamespace(wait_stream=lambda side: words.append(f"the step waits for {side}"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: computing)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: "side")
    monkeypatch.setattr(torch.cuda, "stream", on)
    monkeypatch.setattr(torch.Tensor, "to", lambda self, device, non_blocking: words.append(f"to {device}") or self)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda self, stream: words.append("kept while it is read"))
    yield words
    _copying.cache_clear()


def test_a_batch_goes_to_cuda_beside_what_is_computed_which_waits_for_it_and_keeps_its_memory(told: list[str]) -> None:
    to_device_beside({"image": torch.ones(2), "mask": torch.ones(2)}, torch.device("cuda", 1))
    sent, kept = ["to cuda:1"] * 2, ["kept while it is read"] * 2
    assert told == ["on side", *sent, "off side", "the step waits for side", *kept]


def test_elsewhere_a_batch_goes_as_it_is(told: list[str]) -> None:
    for device in ("cpu", "mps", "meta"):
        to_device_beside({"image": torch.ones(2)}, torch.device(device))
    assert told == ["to cpu", "to mps", "to meta"]


def test_float64_is_on_the_device_itself_unless_that_has_none() -> None:
    assert in_double(torch.ones(2, device="meta")).device.type == "meta"
    there = in_double(on_metal(torch.ones(2)))
    assert (there.device.type, there.dtype) == ("cpu", torch.float64)
