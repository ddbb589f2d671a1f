"""SIGINT, SIGTERM, SIGUSR1, SIGHUP at any moment: the step is finished and saved, and the exit code says why."""

from itertools import product
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR1, Signals

import pytest
from support.equality import differences, final_state
from support.forks import Forks, Program
from support.moments import MOMENTS, signal_at
from support.runs import TINY, load, newest_run
from support.warm import VALIDATION

STEPS = 6
CODES = {SIGINT: 130, SIGTERM: 143, SIGUSR1: 143, SIGHUP: 143}
SETTINGS = [
    f"lightning.trainer.max_steps={STEPS}",
    "lightning.trainer.val_check_interval=2",
    "lightning.trainer.num_sanity_val_steps=1",
    "lightning.trainer.accumulate_grad_batches=2",
    "data.params.num_workers=2",
    VALIDATION,
    "lightning.callbacks.periodic_checkpoint_overwrite={target: lun.callbacks.Checkpoint,"
    " params: {filename: every-2k-steps, every_n_train_steps: 2}}",
    "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger,"
    " params: {batch_frequency: 2, prompts: [red], log_images_kwargs: {ddim_steps: 1}}}",
]
BEFORE = ("reading the settings", "writing down the run", "a sanity check")
ALL = list(product(CODES, (False, True), [moment for moment in MOMENTS if moment not in BEFORE]))
QUICK = [
    (SIGINT, True, "an optimizer step"),
    (SIGTERM, True, "validation"),
    (SIGHUP, True, "sampling"),
    (SIGINT, False, "saving"),
    (SIGUSR1, False, "an update of the EMA"),
]


def named(case: tuple[Signals, bool, str]) -> str:
    number, group, moment = case
    return f"{number.name} to the {'group' if group else 'process'} in {moment}"


@pytest.fixture(scope="session")
def first_start(pictures: Path) -> list[str]:
    return ["--base", str(TINY), "--logdir", "logs", "--data_root", str(pictures), "-t", *SETTINGS]


@pytest.fixture(scope="session")
def straight(forks: Forks, first_start: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict:
    folder = tmp_path_factory.mktemp("straight")
    with forks.start(first_start, folder) as program:
        assert program.code() == 0, program.said()
    return final_state(newest_run(folder / "logs"))


@pytest.mark.parametrize(
    ("number", "group", "moment"),
    [pytest.param(*case, id=named(case), marks=[] if case in QUICK else pytest.mark.slow) for case in ALL],
)
def test_a_signal_stops_a_run_that_goes_on_as_if_nothing_had_happened(
    forks: Forks, tmp_path: Path, first_start: list[str], straight: dict, number: Signals, group: bool, moment: str
) -> None:
    with forks.start(first_start, tmp_path, signal_at, moment, number, group) as program:
        assert program.code() == CODES[number], program.said()
        assert program.orphans() == []
    require_peace(program)
    run = newest_run(tmp_path / "logs")
    assert f"main.py -r {run} -t\n" in program.said()
    position = load(run / "checkpoints/last.ckpt")["lun"]["position"]
    assert 0 < position["step"] < STEPS and position["slot"] == 4 * position["step"]
    with forks.start(["-r", str(run), "-t"], tmp_path) as program:
        assert program.code() == 0, program.said()
    assert differences(straight, final_state(run)) == []


EARLY = [(number, moment) for number in CODES for moment in BEFORE]
EARLY_QUICK = [(number, BEFORE[2]) for number in CODES] + [(SIGUSR1, BEFORE[1]), (SIGTERM, BEFORE[0])]


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        pytest.param(*case, id=f"{case[0].name} while {case[1]}", marks=[] if case in EARLY_QUICK else pytest.mark.slow)
        for case in EARLY
    ],
)
def test_a_signal_before_the_first_step_ends_the_run_and_leaves_latest_as_it_was(
    forks: Forks, tmp_path: Path, first_start: list[str], number: Signals, moment: str
) -> None:
    with forks.start(first_start, tmp_path, signal_at, moment, number, True) as program:
        assert program.code() == CODES[number], program.said()
        assert program.orphans() == []
    require_peace(program)
    assert not (tmp_path / "logs" / "latest").is_symlink()


@pytest.mark.parametrize("moment", ["an optimizer step", "saving"])
def test_a_second_ctrl_c_ends_at_once(forks: Forks, tmp_path: Path, first_start: list[str], moment: str) -> None:
    with forks.start(first_start, tmp_path, signal_at, moment, SIGINT, True, 2) as program:
        assert program.code() == 130, program.said()
        assert program.orphans() == []
    require_peace(program)
    assert not (newest_run(tmp_path / "logs") / "checkpoints/last.ckpt").exists()


def require_peace(program: Program) -> None:
    assert "Traceback" not in program.said()
    assert "error[BUG]" not in program.said()
