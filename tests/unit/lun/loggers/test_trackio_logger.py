"""trackio is told once how a run is set, and its numbers and pictures as they come."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
from lightning.pytorch.utilities import rank_zero_only
from PIL import Image

from lun.loggers import TrackioLogger


class Run:
    def __init__(self) -> None:
        self.told: list[Any] = []

    def log(self, numbers: dict[str, Any], step: int | None) -> None:
        self.told.append((step, numbers))

    def finish(self) -> None:
        self.told.append("finished")


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    begun: list[Any] = []
    package = ModuleType("trackio")
    package.init = lambda **settings: begun.append((Run(), settings)) or begun[-1][0]
    package.Image = lambda picture: ("picture", picture.size)
    monkeypatch.setitem(sys.modules, "trackio", package)
    return begun


def test_settings_numbers_and_pictures_arrive(begun: list[Any]) -> None:
    logger = TrackioLogger("p", run_name="r")
    logger.log_hyperparams({"model": {"rate": 1}})
    logger.log_metrics({"train/loss": torch.tensor(0.5)}, 2)
    logger.log_image("samples/sheet", [Image.new("RGB", (4, 3))], 2)
    logger.finalize("success")
    ((run, settings),) = begun
    assert settings["config"] == {"model": {"rate": 1}} and (settings["project"], settings["name"]) == ("p", "r")
    assert settings["resume"] == "allow" and settings["space_id"] is None
    assert run.told == [(2, {"train/loss": 0.5}), (2, {"samples/sheet": ("picture", (4, 3))}), "finished"]


def test_other_ranks_begin_none(begun: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_zero_only, "rank", 1)
    logger = TrackioLogger()
    logger.log_hyperparams({})
    logger.log_metrics({"a": 1.0}, 0)
    logger.finalize("success")
    assert begun == []
