"""A run in small, of which nothing stays."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.runs import TINY, make_pictures

from ldm.errors import Fault
from lun.cli.arguments import Arguments
from lun.cli.parser import parse
from lun.probe.probe import ONCE, STEPS, in_small, probe, slot_of_largest, temporary_folder
from lun.run.session import Session
from lun.run.settings import read_settings
from lun.trainer import run


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command line of a tiny run, in a folder with a run of before, to which `latest` leads."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUN_THREADS", "1")
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "cache"))
    make_pictures(tmp_path / "pictures", 4)
    (tmp_path / "logs" / "before").mkdir(parents=True)
    (tmp_path / "logs" / "latest").symlink_to("before")
    return ["--base", str(TINY), "--data_root", "pictures", "--probe"]


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if "cache" not in path.parts}


def test_a_rehearsal_measures_and_leaves_nothing(
    line: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(tmp_path)
    validation = "data.params.validation={target: lun.data.local.Local, params: {data_root: pictures, size: 8}}"
    assert run([*line, validation]) == 0
    told = capsys.readouterr().out
    assert " s a step, " in told and "a batch of validation" in told and "GiB of main memory" in told
    assert "a resume with one more step" in told and told.count("files    checkpoint") == 2
    assert "add -t to train:" in told and "--probe -t" not in told
    assert files(tmp_path) == before and (tmp_path / "logs" / "latest").readlink() == Path("before")


def interrupted(*_: Any) -> int:
    raise KeyboardInterrupt


def refused(*_: Any) -> int:
    raise Fault("DEV02", "out of memory")


@pytest.mark.parametrize(("ends", "code"), [(lambda *_: 130, 130), (interrupted, 130), (refused, 5)])
def test_nothing_stays_of_a_rehearsal_that_ends_early(
    line: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: Callable[..., int], code: int
) -> None:
    def fit(session: Session, words: list[str]) -> int:
        session.run_directory()
        return ends()

    before = files(tmp_path)
    monkeypatch.setattr(Session, "fit", fit)
    assert run(line) == code and files(tmp_path) == before


def test_the_rehearsal_writes_where_the_run_would_and_not_into_a_run_that_is_named_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUN_RUN_DIRECTORY", "chosen")
    with temporary_folder(tmp_path / "not" / "there") as folder:
        assert folder.parent == tmp_path and "LUN_RUN_DIRECTORY" not in os.environ
    assert os.environ["LUN_RUN_DIRECTORY"] == "chosen" and list(tmp_path.iterdir()) == []


def test_writers_and_loggers_have_no_part_in_it() -> None:
    given = ["lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger, params: {batch_frequency: 5}}"]
    saver = "{target: lun.callbacks.Checkpoint, params: {filename: a, every_n_train_steps: 1}}"
    given += ["lightning.callbacks.out={target: lun.callbacks.Export}", f"lightning.callbacks.saver={saver}"]
    arguments = Arguments(base=(str(TINY),), data_root=(".",), overrides=(*given, "data.params.cache=true"))
    settings = in_small(read_settings(arguments, None))
    callbacks = {name: recipe for name, recipe in settings.lightning("callbacks").items() if recipe}
    assert not {"out", "saver"} & callbacks.keys()
    assert callbacks["image_logger"]["params"]["batch_frequency"] == ONCE
    assert settings.config["data"]["params"]["cache"] is None and settings.lightning("logger") == {}
    assert settings.trainer()["max_steps"] == STEPS and settings.config["model"]["params"]["scheduler_config"] is None


def test_it_begins_with_the_largest_pictures() -> None:
    sizes = {0: (8, 8), 4: (8, 16), 8: (16, 16), 12: (8, 8)}
    law = SimpleNamespace(n=14, beginning=lambda place: place, key=lambda place: SimpleNamespace(size=sizes[place]))
    run_ = SimpleNamespace(window=SimpleNamespace(global_batch=4))
    session: Any = SimpleNamespace(run=run_, data=SimpleNamespace(buckets=object(), law=lambda: law))
    assert slot_of_largest(session) == 8
    session.data.buckets = None
    assert slot_of_largest(session) == 0


def test_several_devices_are_refused() -> None:
    ranks = SimpleNamespace(count=2)
    session: Any = SimpleNamespace(run=SimpleNamespace(execution=SimpleNamespace(ranks=ranks)))
    with pytest.raises(Fault, match="CLI02"):
        probe(session)


@pytest.mark.parametrize("flag", ["-t", "--check", "-r", "--name=a", "--postfix=a", "--time-limit=1:00", "--doctor"])
def test_what_would_have_no_effect_beside_it_is_refused(flag: str) -> None:
    with pytest.raises(Fault, match="CLI02"):
        parse(["--base", "sd15", "--probe", flag])
