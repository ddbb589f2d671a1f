"""When a run's page is written anew, and what it costs if it cannot be."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
from support.run_folder import Page, make_run

from lun.callbacks import ImageLogger
from lun.report.renewal import RunPage, renew


class Drawing(ImageLogger):
    """Drew at the step that it is told."""

    at: int | None = None

    @property
    def drawn_at(self) -> int | None:
        return self.at


def written(run, trainer: Any, step: int, final: bool = False, page: RunPage | None = None) -> bool:
    """Whether arriving at a step writes the page."""
    (run / "report.html").unlink(missing_ok=True)
    (page or RunPage(run)).at_step(trainer, SimpleNamespace(), step, final)
    return (run / "report.html").exists()


def test_the_page_is_written_after_sampling_and_validation_on_the_first_rank_alone(tmp_path):
    run, sampler = make_run(tmp_path / "run"), Drawing()
    trainer = SimpleNamespace(callbacks=[sampler], is_global_zero=True, sanity_checking=False)
    assert not written(run, trainer, 10)
    sampler.at = 10
    assert written(run, trainer, 10) and not written(run, trainer, 11)
    assert not written(run, trainer, 10, final=True)
    assert not written(run, SimpleNamespace(**vars(trainer) | {"is_global_zero": False}), 10)
    page = RunPage(run)
    page.on_validation_end(trainer, SimpleNamespace())
    assert written(run, trainer, 12, page=page) and not written(run, trainer, 13, page=page)


def test_a_page_that_cannot_be_written_costs_a_warning(tmp_path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        renew(tmp_path / "nowhere" / "\0")
    assert "report.html could not be written" in caplog.text


def test_the_process_that_trains_leaves_its_lock_alone(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", status="running", exit_code=None, ended="")
    monkeypatch.setattr("lun.report.run_state.RunLock", None)
    renew(run, writing=True)
    assert "training since 2026-11-20 11:13:02" in Page((run / "report.html").read_text("utf-8")).text
