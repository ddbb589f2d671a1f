"""The examination as a whole, on this machine and on one that is not well."""

import getpass
import subprocess
import sys
from pathlib import Path

import pytest

from lun.doctor import look
from lun.doctor.examination import examine_settings, exit_status, report
from lun.doctor.finding import Finding
from lun.doctor.hardware import Torch
from lun.trainer import run

PLACES = ("/dev/shm", "disk", "permissions")


def test_the_command_names_everything_that_training_needs(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["--doctor"])
    said = capsys.readouterr().out
    labels = [line[7:19].strip() for line in said.splitlines() if line.startswith("[")]
    assert labels[:4] == ["lun", "system", "Python", "torch"]
    assert labels[4:-1] == ["torchvision", "packages", "versions", "tokenizer", "C compiler", *PLACES]
    assert code == int("[FAIL]" in said)
    assert str(Path.home()) not in said and str(Path.cwd()) not in said
    assert getpass.getuser() == "root" or getpass.getuser() not in said


def test_a_failure_is_the_exit_status(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(look, "torch", lambda: Torch(error="/home/jane/torch/lib/libc10.so: cannot be read"))
    assert run(["--doctor"]) == 1
    said = capsys.readouterr().out
    assert "[FAIL] torch       cannot be imported: (path)/libc10.so: cannot be read" in said
    assert "1 FAIL, " in said.splitlines()[-1]


def test_a_warning_is_no_failure() -> None:
    assert exit_status([Finding("WARN", "disk", ""), Finding("OK", "torch", "")]) == 0


def test_names_of_the_machine_and_its_user_do_not_show() -> None:
    line, _ = report([Finding("OK", "system", "Linux of jane on janes-pc")], ["jane", "janes-pc"])
    assert line == "[OK]   system      Linux of (name) on (name)"


def test_settings_of_the_gpu_are_told() -> None:
    assert examine_settings({"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}).detail == "HSA_OVERRIDE_GFX_VERSION=10.3.0"
    assert examine_settings({}).detail == "nothing set"


def test_it_answers_where_the_packages_of_the_program_are_missing(repo_root: Path) -> None:
    code = (
        "import sys; sys.modules |= dict.fromkeys(('yaml', 'omegaconf', 'torch', 'lightning', 'numpy'));"
        "from lun.trainer import run; sys.exit(run(['--doctor']))"
    )
    answer = subprocess.run([sys.executable, "-c", code], cwd=repo_root, capture_output=True, text=True)
    assert answer.returncode == 1, answer.stderr
    assert "[FAIL] torch       cannot be imported" in answer.stdout
