"""What loggers are told, where they write, and what is said where one cannot be used."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lightning.pytorch import loggers
from lightning.pytorch.loggers import Logger

from ldm.admission import may_import
from ldm.errors import Fault
from ldm.missing_packages import install_line
from lun.config.unfit import NEEDS
from lun.run import run_loggers
from lun.run.run_loggers import build_loggers, close_loggers, log_settings
from lun.trainer import run

BARE = ("CSVLogger", "Logger", "TensorBoardLogger")


class Told(Logger):
    """Notes how it is made and told."""

    def __init__(
        self, name: str = "", id: str = "", save_dir: str = "", run_name: str = "", refuses: Any = None
    ) -> None:
        super().__init__()
        self.given = {"name": name, "id": id, "save_dir": save_dir, "run_name": run_name}
        self.refuses = refuses
        self.settings: dict[str, Any] = {}

    name = version = ""

    def log_metrics(self, metrics: Any, step: int | None = None) -> None: ...

    def log_hyperparams(self, params: dict[str, Any], *args: Any) -> None:
        if self.refuses:
            raise self.refuses
        self.settings = params


@pytest.mark.parametrize(
    "name", [name for name in loggers.__all__ if issubclass(getattr(loggers, name), Logger) and name not in BARE]
)
def test_the_package_of_every_logger_of_lightning_is_known(name: str) -> None:
    assert f"{getattr(loggers, name).__module__}.{name}" in NEEDS


def test_a_missing_package_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "trackio" else found(name))
    words = ["--base", "configs/demo/emoji.yaml", "--logdir", str(tmp_path / "logs"), "-t"]
    assert run([*words, "lightning.logger.mine={target: lun.loggers.TrackioLogger}"]) == 7
    said = capsys.readouterr().err
    assert "error[DEP01]: cannot load target lun.loggers.TrackioLogger" in said and install_line("trackio") in said
    assert not (tmp_path / "logs").exists()


def test_loggers_write_below_the_run_and_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_loggers, "admitted", lambda target: Told)
    monkeypatch.setattr(run_loggers, "instantiate_from_config", lambda recipe: Told(**recipe["params"]))
    first, second = build_loggers(
        {"a": {"target": "x"}, "b": {"target": "x", "params": {"name": "own"}}}, tmp_path / "r"
    )
    assert first.given == {"name": "r", "id": "r", "save_dir": str(tmp_path / "r"), "run_name": "r"}
    assert second.given["name"] == "own"


def test_each_is_told_the_settings_and_one_that_refuses_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = Told()
    log_settings([logger], {"model": {"target": "x"}})
    assert logger.settings == {"model": {"target": "x"}}

    class Error(Exception):
        """As the base of W&B's."""

    package = ModuleType("wandb")
    package.__spec__ = ModuleSpec("wandb", None)
    package.Error = Error
    monkeypatch.setitem(sys.modules, "wandb", package)
    for error in (Error("\nno API key\nmore"), OSError("no API key"), ValueError("no API key")):
        with pytest.raises(Fault, match="no API key") as refused:
            log_settings([Told(refuses=error)], {})
        assert refused.value.id == "CFG08"


def test_aim_is_not_trusted_by_itself() -> None:
    assert not may_import("aim.pytorch_lightning.AimLogger")


def test_what_would_be_written_as_the_process_ends_is_written_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[Any] = []

    class Experiment:
        def finish(self, exit_code: int) -> None:
            ended.append(exit_code)
            raise OSError("gone")

    monkeypatch.setattr(loggers.WandbLogger, "experiment", Experiment())
    aim = type("AimLogger", (), {"__module__": "aim.sdk", "finalize": lambda self, status: ended.append("aim")})
    close_loggers([object.__new__(loggers.WandbLogger), aim(), Told()], 3)
    assert ended == [3, "aim"] and "WandbLogger did not end as it should: gone" in caplog.text
