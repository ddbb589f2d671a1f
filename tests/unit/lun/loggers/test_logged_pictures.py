"""A picture reaches each logger in its own way."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger
from PIL import Image

from lun.loggers.logged_pictures import log_picture

PICTURE = Image.new("RGB", (4, 3), "red")


class Calls:
    """Whatever is called on it is noted."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *words, **named: self.told.append((name, words, named))


def test_lightnings_own_way_is_taken_where_there_is_one() -> None:
    calls = Calls()
    logger = SimpleNamespace(log_image=calls.log_image)
    log_picture(logger, "samples/sheet", PICTURE, 3)
    assert calls.told == [("log_image", ("samples/sheet", [PICTURE], 3), {})]


def test_mlflow_is_told_by_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, logger = Calls(), object.__new__(MLFlowLogger)
    monkeypatch.setattr(MLFlowLogger, "experiment", calls)
    monkeypatch.setattr(MLFlowLogger, "run_id", "7")
    log_picture(logger, "samples/sheet", PICTURE, 3)
    assert calls.told == [("log_image", ("7", PICTURE), {"key": "samples/sheet", "step": 3})]


def test_aim_is_told_by_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    aim = ModuleType("aim")
    aim.Image = lambda picture: ("aim", picture)
    monkeypatch.setitem(sys.modules, "aim", aim)
    calls = Calls()
    kind = type("AimLogger", (), {"__module__": "aim.sdk", "experiment": calls})
    log_picture(kind(), "samples/sheet", PICTURE, 3)
    assert calls.told == [("track", (("aim", PICTURE),), {"name": "samples/sheet", "step": 3})]


def test_a_logger_of_numbers_alone_is_left_in_peace(tmp_path: Any) -> None:
    logger: Logger = CSVLogger(str(tmp_path))
    log_picture(logger, "samples/sheet", PICTURE, 3)
    assert list(tmp_path.iterdir()) == []
