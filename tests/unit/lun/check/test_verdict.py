"""What `--check` says, and when it need not look again."""

import logging
from pathlib import Path
from typing import Any

import pytest

from ldm.errors import Fault
from lun.check import construction_faults as building
from lun.check.verdict import check
from lun.run.settings import Settings

log = logging.getLogger("lun.somewhere")
LACKING = Fault("DEP01", "a package is missing")
WRONG = Fault("CFG08", "wrong")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))


class Builder:
    """Stands for what builds what settings describe: how often it did, what it finds, and what it says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times, self.faults, self.says = 0, [], ""
        monkeypatch.setattr(building, "construction_faults", self)

    def __call__(self, *asked: Any) -> list[Fault]:
        self.times += 1
        if self.says:
            log.warning(self.says)
        return self.faults


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    return Builder(monkeypatch)


def settings(root: str = "nowhere", **model: Any) -> Settings:
    train = {"target": "lun.data.LocalBase", "params": {"data_root": root}}
    data = {"target": "lun.data.module.DataModuleFromConfig", "params": {"train": train}}
    return Settings({"model": {"target": "ldm.models.Any", "params": model}, "data": data}, (), ())


def judged(given: Settings, known: tuple[Fault, ...] = (), limited: bool = False) -> None:
    check(given, list(known), has_time_limit=limited, resumed=False)


def test_settings_that_were_right_are_not_built_again(builder: Builder, capsys: pytest.CaptureFixture[str]) -> None:
    judged(settings())
    judged(settings())
    judged(settings("elsewhere"))  # pictures are not looked at
    assert builder.times == 1
    assert capsys.readouterr().out == "the configuration has no faults\n" * 3


def test_other_settings_are(builder: Builder) -> None:
    judged(settings())
    judged(settings(scale=2))
    judged(settings(), limited=True)
    assert builder.times == 3


def test_a_file_that_settings_name_is_looked_at_again_once_it_changed(builder: Builder, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("a cat")
    judged(settings(prompts=str(prompts)))
    prompts.write_text("a cat and a dog")
    judged(settings(prompts=str(prompts)))
    assert builder.times == 2


def test_faults_are_found_each_time(builder: Builder) -> None:
    builder.faults = [WRONG]
    for _ in range(2):
        with pytest.raises(Fault, match="wrong"):
            judged(settings())
    assert builder.times == 2


@pytest.mark.parametrize("known", [(LACKING,), ()], ids=["known before", "found"])
def test_what_this_machine_lacks_is_noted_each_time(
    known: tuple[Fault, ...], builder: Builder, capsys: pytest.CaptureFixture[str]
) -> None:
    builder.faults = [] if known else [LACKING]
    for _ in range(2):
        judged(settings(), known)
        assert "a package is missing" in capsys.readouterr().err
    assert builder.times == 2


def test_what_is_said_while_building_is_said_each_time(builder: Builder) -> None:
    builder.says = "note: look here"
    judged(settings())
    judged(settings())
    assert builder.times == 2


def test_nothing_is_built_where_the_settings_are_wrong_already(builder: Builder) -> None:
    with pytest.raises(Fault, match="wrong"):
        judged(settings(), (WRONG,))
    assert builder.times == 0
