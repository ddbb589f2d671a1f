"""Drift: in the start's standard deviations, for the pictures that were remembered."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from support.on_metal import on_metal
from torch import Tensor

from ldm.models.drift import Drift
from ldm.modules.posterior import Posterior

CPU = torch.device("cpu")


def as_it_is(tensor: Tensor, reduce_op: str) -> Tensor:
    return tensor


def batch(*slots: int) -> dict[str, Any]:
    values = torch.tensor([float(slot) for slot in slots])
    return {"slot": torch.tensor(slots), "image": values[:, None, None, None].expand(-1, 3, 2, 2)}


def moments(batch: Mapping[str, Any]) -> Tensor:
    return torch.cat([batch["image"], torch.zeros_like(batch["image"])], 1)


def moved(by: float, *slots: int) -> Posterior:
    return Posterior.of(moments({"image": batch(*slots)["image"] + by}))


def test_it_is_the_way_in_standard_deviations_of_the_start() -> None:
    drift = Drift()
    drift.remember(moments, [batch(0, 2), batch(4)])
    deviation = torch.tensor([0.0, 2.0, 4.0]).std(correction=0).item()
    for by in (0.0, 3.0):
        drift.restart()
        drift.add(batch(0, 2), moved(by, 0, 2))
        drift.add(batch(4, 9), moved(by, 4, 9))  # 9 was not remembered
        assert drift.metrics(as_it_is, CPU)["latent_drift"].item() == pytest.approx(by / deviation, rel=1e-5)


def test_it_goes_on_from_a_checkpoint() -> None:
    drift, resumed = Drift(), Drift()
    drift.remember(moments, [batch(0, 2)])
    resumed.load_state_dict(drift.state_dict())
    resumed.add(batch(0, 2), moved(1.0, 0, 2))
    assert resumed.metrics(as_it_is, CPU)["latent_drift"].item() == pytest.approx(1.0)


def test_only_the_first_pictures_are_remembered() -> None:
    drift = Drift()
    drift.remember(moments, [batch(*range(n, n + 8)) for n in range(0, 80, 8)])
    assert drift.state_dict()["slots"].tolist() == list(range(16))


def test_without_a_start_there_is_nothing_to_tell() -> None:
    assert Drift().metrics(as_it_is, CPU) == {} and Drift().state_dict() == {}


def test_it_is_told_where_the_device_has_no_float64() -> None:
    drift = Drift()
    drift.remember(lambda known: on_metal(moments(known)), [batch(0, 2)])
    drift.add(batch(0, 2), Posterior.of(on_metal(moments({"image": batch(0, 2)["image"] + 1}))))
    assert drift.metrics(as_it_is, torch.device("mps"))["latent_drift"].item() == pytest.approx(1.0)
