"""The plan of a start, line by line, and what it says of a run that was."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lun.memory.forecast import Forecast


def test_the_plan_tells_time_files_captions_and_samples(
    lun: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lun() == 0
    told = capsys.readouterr().out
    assert "time     unknown: " in told and "files    checkpoint " in told and not (tmp_path / "logs").exists()
    assert "captions 3 tokens in the middle, 3 at most, of 4 read; none is cut" in told
    assert len([line for line in told.splitlines() if not line.startswith(("layout", "note", "  fix"))]) <= 18


def test_a_place_where_no_run_can_be_written_ends_the_plan(
    lun: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").write_text("a file")
    assert lun() == 8
    said = capsys.readouterr()
    assert "error[DSK01]: cannot write into" in said.err + said.out and "--logdir" in said.err + said.out


def test_a_run_that_is_to_fit_takes_the_settings_that_were_chosen(
    lun: Callable[..., int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lun.memory.fit.forecast", lambda config: Forecast(2**20, 0, 0, 2**21, 0, 0, 0))
    assert lun("--fit", "2", "data.params.batch_size=1", "lightning.trainer.accumulate_grad_batches=2") == 0
    told = capsys.readouterr().out
    chosen = "data.params.batch_size=2 lightning.trainer.accumulate_grad_batches=1"
    assert f"of 2.0 GiB predicted: {chosen}" in told and "batch 2 x accumulate 1 x devices 1 = 2 images a step" in told
