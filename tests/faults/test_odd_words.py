"""Numbers, names and surroundings that no run can have: each is refused by id, and is never a fault of the program."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.runs import TINY
from support.told import Told

from lun.cli.flags import FLAGS
from lun.trainer import run

LONG = "x" * 300
CODES = (0, 2, 3, 4, 5, 7, 8)
NASTY = {
    "long": LONG,
    "a zero": "a\0b",
    "no UTF-8": "a\udcff",
    "empty": "",
    "a newline": "a\nb",
    "an escape": "a\x1b[2Jb",
}
TAKING = [flag for flag, how in FLAGS.items() if how.value != "none"]
TRAINER = "lightning.trainer"
SAVER = "{target: lun.callbacks.Checkpoint, params: {filename: same, every_n_train_steps: 1}}"
ODD: Mapping[str, tuple[list[str], str, int]] = {
    "all devices without a GPU": (["--devices", "-1"], "DEV03", 5),
    "two devices by number without a GPU": (["--devices", "0,1"], "DEV03", 5),
    "devices that are no number": (["--devices", "abc"], "DEV03", 5),
    "no device": (["--devices", "0"], "DEV03", 5),
    "fewer than no devices": (["--devices", "-2"], "DEV03", 5),
    "a TPU": (["--accelerator", "tpu"], "DEV03", 5),
    "no node": (["--num_nodes", "0"], "CFG08", 2),
    "no timestep": (["model.params.timesteps=0"], "CFG03", 2),
    "fewer than no timesteps": (["model.params.timesteps=-1"], "CFG03", 2),
    "captions without a token": (["model.params.cond_stage_config.params.max_length=0"], "CFG08", 2),
    "captions of fewer than no tokens": (["model.params.cond_stage_config.params.max_length=-1"], "CFG08", 2),
    "a validation that never comes": ([f"{TRAINER}.val_check_interval=.inf"], "CFG03", 2),
    "a validation at no number": ([f"{TRAINER}.val_check_interval=.nan"], "CFG03", 2),
    "a clipping at infinity": ([f"{TRAINER}.gradient_clip_val=.inf"], "CFG03", 2),
    "a loader that waits for less than nothing": (["data.params.train.dataloader_params={timeout: -1}"], "CFG08", 2),
    "a loader that fetches nothing": (
        ["data.params.train.dataloader_params={num_workers: 1, prefetch_factor: 0}"],
        "CFG08",
        2,
    ),
    "workers that stay where there are none": (
        ["data.params.train.dataloader_params={persistent_workers: true}"],
        "CFG08",
        2,
    ),
    "workers started in no known way": (
        ["data.params.train.dataloader_params={num_workers: 1, multiprocessing_context: abc}"],
        "CFG08",
        2,
    ),
}
SURROUNDINGS = {
    "LUN_THREADS": ("abc", "0", "-1", "1.5"),
    "RANK": ("abc", "-1"),
    "LOCAL_RANK": ("abc",),
    "SLURM_PROCID": ("abc",),
    "SLURM_NTASKS": ("2",),
}


@pytest.fixture
def told(tmp_path: Path, pictures: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.chdir(tmp_path)
    return Told(tmp_path, pictures, capsys)


@pytest.mark.parametrize("case", ODD)
def test_a_number_that_no_run_can_have_is_refused_by_id(told: Told, case: str) -> None:
    words, fault, code = ODD[case]
    told.refused(told.tiny(*words), code, fault, "", begun=True)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in SURROUNDINGS.items() for value in values]
)
def test_an_environment_that_no_run_can_have_is_refused_by_id(
    told: Told, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    slurm = name == "SLURM_NTASKS"
    told.refused(told.tiny(f"{TRAINER}.max_steps=1"), 5 if slurm else 2, "DEV03" if slurm else "CLI04", name)


def test_two_savers_of_one_file_are_refused_by_their_names(told: Told) -> None:
    words = told.tiny(f"lightning.callbacks.a={SAVER}", f"lightning.callbacks.b={SAVER}")
    told.refused(words, 2, "CFG08", "the callbacks a and b would overwrite each other")


@pytest.mark.parametrize("flag", TAKING)
def test_no_odd_word_after_a_flag_is_a_fault_of_the_program(
    flag: str, tmp_path: Path, pictures: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in NASTY.values():
        code = run(["-b", str(TINY), "--data_root", str(pictures), f"{TRAINER}.max_steps=0", f"{flag}={word}", "-t"])
        said = capsys.readouterr()
        assert code in CODES and "Traceback" not in said.out + said.err, said.err


def test_a_long_list_of_prompts_is_a_setting_like_any_other(pictures: Path, tmp_path: Path) -> None:
    prompts = ", ".join(f"a fox number {number} in the snow" for number in range(20))
    logger = f"lightning.callbacks.image_logger={{target: lun.callbacks.ImageLogger, params: {{prompts: [{prompts}]}}}}"
    assert len(os.fsencode(logger)) > 255
    assert run(["-b", str(TINY), "--data_root", str(pictures), "--logdir", str(tmp_path), logger, "--check"]) == 0


@pytest.mark.parametrize("text", ['"a\\0b"', '"a\\ud800"'])
def test_a_text_of_a_config_that_no_file_can_hold_is_refused_with_its_line(told: Told, text: str) -> None:
    words = told.tiny(layer=f"model:\n  params:\n    monitor: {text}\n")
    told.refused(words, 2, "CFG08", "layer.yaml:3")
