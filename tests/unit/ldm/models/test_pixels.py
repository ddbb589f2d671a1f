"""Bytes become numbers on the device: the same bits as before they travelled so, for every model and precision."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from lightning.pytorch.plugins.precision import DoublePrecision, HalfPrecision, MixedPrecision, Precision
from torch import Tensor

from ldm.lightning_classes import as_lightning
from ldm.models.autoencoder import AutoencoderKL
from ldm.models.base import TrainedModel
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.models.first_stage import FirstStage
from ldm.models.pixels import centred, sent, shares

BYTES = torch.arange(256, dtype=torch.uint8)
PRECISIONS = [
    Precision(),
    MixedPrecision("bf16-mixed", "cpu"),
    MixedPrecision("16-mixed", "cuda", scaler=torch.amp.GradScaler("cpu")),
    HalfPrecision("bf16-true"),
    HalfPrecision("16-true"),
    DoublePrecision(),
]


def arrived(batch: Any, precision: Precision) -> Any:
    model = as_lightning(TrainedModel())
    model._trainer = SimpleNamespace(precision_plugin=precision)  # type: ignore[assignment]
    return model.on_after_batch_transfer(batch, 0)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_device_encodes_pictures_channel_by_channel_and_a_cpu_as_they_come(device: str) -> None:
    seen: list[Tensor] = []
    network = SimpleNamespace(encoder=lambda x: seen.append(x) or x, quant_conv=lambda x: x)
    with patch("ldm.models.first_stage.outside_float16", lambda network, x: nullcontext(x)):
        pictures = torch.empty(2, 8, 8, 3, device=device).movedim(-1, 1)
        FirstStage.encode_moments(SimpleNamespace(network=network), pictures)  # type: ignore[arg-type]
    assert seen[0].is_contiguous() is (device != "cpu") and seen[0].shape == (2, 3, 8, 8)


@pytest.mark.parametrize("precision", PRECISIONS, ids=lambda one: f"{type(one).__name__} {one.precision}")
def test_all_256_values_have_the_bits_of_numbers_that_travel(precision: Precision) -> None:
    numbers = {"image": BYTES.float().div_(127.5).sub_(1.0), "mask": BYTES.float().div_(255)}
    seen = arrived(precision.convert_input({"image": BYTES, "mask": BYTES}), precision)
    expected = precision.convert_input(numbers)
    for key, values in expected.items():
        assert seen[key].dtype == values.dtype and torch.equal(seen[key], values), key


def test_numbers_and_all_else_of_a_batch_stay_what_they_are() -> None:
    batch = {"image": torch.rand(1, 2, 2, 3), "caption": ["a"], "slot": torch.tensor([3]), "depth": BYTES}
    assert arrived(batch, Precision()) is batch
    alone = torch.rand(2)
    assert arrived(alone, Precision()) is alone


@pytest.mark.parametrize("model", [LatentDiffusion, AutoencoderKL])
def test_no_model_has_a_way_of_its_own(model: type[TrainedModel]) -> None:
    assert model.on_after_batch_transfer is TrainedModel.on_after_batch_transfer


@pytest.mark.parametrize(("read", "low"), [(centred, -1.0), (shares, 0.0)])
def test_black_and_white_are_the_ends_of_the_range(read: Any, low: float) -> None:
    numbers: Tensor = read(BYTES)
    assert (numbers[0].item(), numbers[-1].item()) == (low, 1.0)


def test_tensors_travel_and_what_holds_tensors_is_left_to_lightning() -> None:
    batch = {"image": torch.ones(2), "states": {"a": torch.ones(3)}, "set": [0, 1]}
    tensors, others = sent(batch, torch.device("meta"))
    assert tensors["image"].device.type == "meta" and others == {"states": batch["states"], "set": [0, 1]}
    moved = as_lightning(TrainedModel()).transfer_batch_to_device(
        {**batch, "slot": torch.ones(2)}, torch.device("meta"), 0
    )
    assert list(moved) == [*batch, "slot"] and moved["states"]["a"].device.type == "meta"
    assert moved["slot"].device.type == "cpu"  # what the host makes draws of
