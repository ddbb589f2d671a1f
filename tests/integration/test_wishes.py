"""What people add to a run: libraries' callbacks and loggers, code of their own, and settings at their ends."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.runs import newest_run
from support.tried import BARS, CALLBACKS, LOGGERS, STRATEGIES

Lun = Callable[..., int]
VALIDATION = "data.params.validation={target: lun.data.local.Local, params: {data_root: '???', size: 8, flip_p: 0.0}}"
SHORT = ["lightning.trainer.max_steps=2", "lightning.trainer.val_check_interval=1"]


def named(section: str, package: str, *classes: str, **params: str) -> list[str]:
    return [
        f"lightning.{section}.{name.lower()}={{target: {package}.{name}, params: {params.get(name, '{}')}}}"
        for name in classes
    ]


def test_a_run_carries_lightnings_own_callbacks_and_loggers_and_none_of_its_own_where_that_is_asked(
    lun: Lun, tmp_path: Path
) -> None:
    callbacks = named(
        "callbacks",
        "lightning.pytorch.callbacks",
        *CALLBACKS,
        EarlyStopping="{monitor: val/loss_simple, patience: 50}",
        DeviceStatsMonitor="{cpu_stats: true}",
    )
    loggers = named("logger", "lightning.pytorch.loggers", *LOGGERS)
    (name,) = STRATEGIES
    single = f"{{target: lightning.pytorch.strategies.{name}, params: {{device: cpu}}}}"
    strategy = ["lightning.trainer.devices=auto", f"lightning.trainer.strategy={single}"]
    assert lun("-t", *SHORT, VALIDATION, *callbacks, *loggers, *strategy) == 0
    run = newest_run(tmp_path / "logs")
    assert list(run.rglob("metrics.csv")) and list(run.rglob("events.out.tfevents*"))


@pytest.mark.parametrize("bar", BARS)
def test_speed_and_metrics_may_be_logged_never_and_the_bar_may_be_another(lun: Lun, tmp_path: Path, bar: str) -> None:
    rich = named("callbacks", "lightning.pytorch.callbacks", bar)
    throughput = named("callbacks", "lun.callbacks", "Throughput")
    words = ["lightning.trainer.log_every_n_steps=0", "lightning.trainer.max_steps=3"]
    widest = "model.params.ema_config={target: ldm.modules.ema.LitEma, params: {widths: [0.2887]}}"
    assert lun("-t", *words, *rich, *throughput, widest) == 0
    assert not (newest_run(tmp_path / "logs") / "metrics.jsonl").exists()


def test_two_progress_bars_are_refused_with_how_to_have_one(lun: Lun, capsys: pytest.CaptureFixture[str]) -> None:
    bars = ["lightning.callbacks.progress={target: lun.callbacks.SmoothedProgressBar}"]
    bars += named("callbacks", "lightning.pytorch.callbacks", "RichProgressBar")
    assert lun("-t", *bars) == 2
    assert "CFG08" in (told := capsys.readouterr().err) and "lightning.callbacks.progress=null" in told


OWN = """
from lightning.pytorch import Callback
from lun.data.local import Local


class Wish(Callback):
    def on_train_batch_end(self, *args):
        {line}


class Pictures(Local):
    def example(self, index, draws):
        raise ValueError("no such picture")
"""


@pytest.mark.parametrize(
    "line", ["raise ValueError('what I wished')", "len(5)  # what I wished", "open('what I wished')"]
)
def test_an_error_in_a_callback_of_ones_own_names_its_line(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    (tmp_path / "cwd/lun/local").mkdir(parents=True)
    (tmp_path / "cwd/lun/local/wishes.py").write_text(OWN.format(line=line))
    assert lun("-t", "lightning.trainer.max_steps=2", "lightning.callbacks.x={target: lun.local.wishes.Wish}") == 2
    told = capsys.readouterr()
    assert "error[CFG09]: your own code stopped the run" in told.err and "Traceback" not in told.err
    assert "lun/local/wishes.py:8, in on_train_batch_end" in told.err
    assert "fault of the program" not in told.err + told.out
    run = newest_run(tmp_path / "logs")
    assert "wishes.py" in (run / "console.log").read_text()
    assert json.loads((run / "run.json").read_text())["exit_code"] == 2


def test_an_error_in_a_data_set_of_ones_own_names_its_line(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cwd/lun/local").mkdir(parents=True)
    (tmp_path / "cwd/lun/local/wishes.py").write_text(OWN.format(line="pass"))
    assert lun("-t", "data.params.train.target=lun.local.wishes.Pictures") == 2
    told = capsys.readouterr().err
    assert "CFG09" in told and "lun/local/wishes.py:13, in example" in told and "no such picture" in told
