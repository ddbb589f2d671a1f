"""scripts/setup.sh installs what it should; Python and pip are a stand-in that only writes down what it was asked."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

STAND_IN = """#!/usr/bin/env bash
echo "$*" >>"$STATE/calls"
case "$*" in
  --version) echo "Python 3.11.9" ;;
  *installed.py\\ python) echo "$(cat "$STATE/version" 2>/dev/null || echo 3.11) $STATE/bin/python3" ;;
  *installed.py\\ torch) cat "$STATE/torch" 2>/dev/null || true ;;
  -c\\ import\\ torch) [[ -e "$STATE/torch" ]] ;;
  -m\\ venv\\ *) mkdir -p "${@: -1}/bin" && cp "$0" "${@: -1}/bin/python" && touch "${@: -1}/pyvenv.cfg" ;;
  *pip*torch==2.13.0+cpu) [[ ! -e "$STATE/no-cpu-build" ]] && echo "2.13.0+cpu cpu" >"$STATE/torch" ;;
  *pip*torch==2.13.0) echo "2.13.0+cpu cpu" >"$STATE/torch" ;;
  *pip*torch===2.13.0) echo "2.13.0 cuda" >"$STATE/torch" ;;
  *pip*-e\\ .*) [[ ! -e "$STATE/pip-fails" ]] || { echo "no space left on device" && exit 1; } ;;
esac
"""


class Setup:
    """A project of its own with the real script in it, and the stand-in as the only Python on PATH."""

    def __init__(self, repo_root: Path, place: Path) -> None:
        self.project, self.state = place / "my project", place / "state"
        (self.project / "scripts").mkdir(parents=True)
        for name in ("setup.sh", "fault.sh", "machine.sh", "installed.py"):
            shutil.copy(repo_root / "scripts" / name, self.project / "scripts" / name)
        for name in ("pyproject.toml", "constraints.txt"):
            shutil.copy(repo_root / name, self.project / name)
        (self.state / "bin").mkdir(parents=True)
        for name in ("python3", "python3.13", "python3.12", "python3.11"):
            self.write(f"bin/{name}", STAND_IN).chmod(0o755)
        self.venv = self.project / ".venv"

    def write(self, name: str, text: str = "") -> Path:
        """A file of the stand-in's state."""
        path = self.state / name
        path.write_text(text)
        return path

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the script; `LUN_TORCH` is cpu unless given, so that the machine's own devices do not count."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LUN_")}
        path = f"{self.state / 'bin'}:{os.environ['PATH']}"
        variables = {**kept, "PATH": path, "STATE": str(self.state), "LUN_TORCH": "cpu", **environment}
        command = ["bash", str(self.project / "scripts" / "setup.sh"), *arguments]
        return subprocess.run(command, env=variables, capture_output=True, text=True, cwd=self.state)

    def calls(self) -> list[str]:
        """What the stand-in was asked since the last look."""
        path = self.state / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def installed(self) -> list[str]:
        """The `pip install` calls among them, without what they have in common."""
        return [call.split("--no-compile ")[1] for call in self.calls() if "--no-compile" in call]


@pytest.fixture
def setup(repo_root: Path, tmp_path: Path) -> Setup:
    return Setup(repo_root, tmp_path)


def test_a_new_machine_gets_a_cpu_torch_first_and_then_the_project_held_to_it(setup: Setup) -> None:
    answer = setup.run("--test")
    assert answer.returncode == 0, answer.stderr
    *torch, project = setup.installed()
    assert all(call.endswith("torch==2.13.0+cpu") and "--index-url" not in call for call in torch)
    assert project == f"-c constraints.txt -c {setup.venv}/torch-constraint.txt -e .[test]"
    assert (setup.venv / "torch-constraint.txt").read_text() == "torch==2.13.0+cpu\n"


def test_the_second_run_starts_nothing_and_says_nothing(setup: Setup) -> None:
    setup.run("--test")
    setup.calls()
    answer = setup.run("--test")
    assert (answer.returncode, answer.stdout, setup.calls()) == (0, "", [])


def test_an_environment_for_tests_satisfies_a_plain_request_but_not_the_reverse(setup: Setup) -> None:
    setup.run()
    setup.calls()
    setup.run("--test")
    assert setup.installed() == [f"-c constraints.txt -c {setup.venv}/torch-constraint.txt -e .[test]"]
    setup.run()
    assert setup.calls() == []


def test_extras_add_up_whichever_is_asked_for_first_and_are_kept(setup: Setup) -> None:
    held = f"-c constraints.txt -c {setup.venv}/torch-constraint.txt"
    setup.run("--extra", "optim", "--extra=parquet")
    assert setup.installed()[-1] == f"{held} -e .[optim,parquet]"
    for satisfied in ([], ["--extra", "parquet"], ["--extra", "optim", "--extra", "optim"]):
        setup.run(*satisfied)
        assert setup.calls() == []
    setup.run("--test")
    assert setup.installed() == [f"{held} -e .[optim,parquet,test]"]
    (setup.project / "constraints.txt").write_text("numpy==1.0\n")
    setup.run()
    assert setup.installed() == [f"{held} -e .[optim,parquet,test]"]


def test_an_extra_is_kept_through_an_installation_that_failed(setup: Setup) -> None:
    setup.run("--extra", "optim")
    reason = setup.write("pip-fails")
    assert setup.run("--extra", "wandb").returncode == 7
    reason.unlink()
    setup.calls()
    setup.run()
    assert setup.installed()[-1].endswith("-e .[optim,wandb]")


def test_an_extra_that_does_not_exist_is_refused_with_those_that_do(setup: Setup) -> None:
    for words in (["--extra", "bitsandbytes"], ["--extra"], ["--extra="]):
        answer = setup.run(*words)
        assert answer.returncode == 2 and "one of test deepspeed wandb optim parquet remote" in answer.stderr, (
            answer.stderr
        )
    assert setup.calls() == []


def test_other_pins_install_again_and_keep_the_torch(setup: Setup) -> None:
    setup.run()
    setup.calls()
    (setup.project / "constraints.txt").write_text("numpy==1.0\n")
    setup.run()
    assert setup.installed() == [f"-c constraints.txt -c {setup.venv}/torch-constraint.txt -e ."]


def test_a_project_that_was_moved_installs_again(setup: Setup) -> None:
    setup.run()
    setup.calls()
    setup.project = setup.project.rename(setup.project.with_name("moved"))
    setup.run()
    assert setup.installed() != []


def test_another_kind_of_torch_replaces_the_one_that_is_there(setup: Setup) -> None:
    setup.run()
    setup.calls()
    answer = setup.run(LUN_TORCH="cuda")
    assert answer.returncode == 0, answer.stderr
    assert setup.installed()[0].endswith("torch===2.13.0")
    assert (setup.venv / "torch-constraint.txt").read_text() == "torch==2.13.0\n"


def test_once_installed_the_kind_need_not_be_said_again(setup: Setup) -> None:
    setup.run(LUN_TORCH="cuda")
    setup.calls()
    setup.run(LUN_TORCH="")
    assert setup.calls() == []


def test_without_a_cpu_build_on_the_usual_index_only_torch_comes_from_pytorchs(setup: Setup) -> None:
    setup.write("no-cpu-build")
    setup.run()
    calls = setup.installed()
    named = [call for call in calls if "--index-url https://download.pytorch.org/whl/cpu" in call]
    assert [call.split()[-1] for call in named] == ["torch==2.13.0"] * 2
    assert calls[-1] not in named


def test_an_index_that_was_given_is_where_torch_comes_from(setup: Setup) -> None:
    setup.run(LUN_TORCH_INDEX="https://example.org/wheels")
    assert all("--index-url https://example.org/wheels" in call for call in setup.installed()[:-1])


def test_a_torch_of_the_base_python_is_inherited_and_pinned(setup: Setup) -> None:
    setup.write("torch", "2.10.0+cu126 cuda\n")
    setup.run(LUN_TORCH="")
    calls = setup.calls()
    assert f"-m venv --system-site-packages {setup.venv}" in calls
    assert not any("torch==" in call for call in calls)
    assert (setup.venv / "torch-constraint.txt").read_text() == "torch==2.10.0+cu126\n"


def test_a_base_python_without_torch_is_not_inherited_from(setup: Setup) -> None:
    setup.run()
    assert f"-m venv {setup.venv}" in setup.calls()


def test_a_failed_installation_shows_why_and_is_tried_again(setup: Setup) -> None:
    reason = setup.write("pip-fails")
    answer = setup.run()
    assert answer.returncode == 7
    assert "no space left on device" in answer.stderr and "error[DEP01]" in answer.stderr
    reason.unlink()
    assert setup.run().returncode == 0


def test_after_a_failed_change_of_torch_the_old_record_does_not_count(setup: Setup) -> None:
    setup.run()
    setup.write("pip-fails")
    assert setup.run(LUN_TORCH="cuda").returncode == 7
    assert setup.run(LUN_TORCH="").returncode == 7


def test_skip_without_a_torch_is_an_error(setup: Setup) -> None:
    answer = setup.run(LUN_TORCH="skip")
    assert answer.returncode == 7 and "LUN_TORCH=skip" in answer.stderr


def test_a_python_that_is_too_old_is_named(setup: Setup) -> None:
    setup.write("version", "3.9")
    answer = setup.run()
    assert answer.returncode == 7
    assert "no Python 3.11, 3.12 or 3.13 found" in answer.stderr and "Python 3.11.9" in answer.stderr
    assert not setup.venv.exists()


def test_a_folder_that_is_no_environment_is_left_alone(setup: Setup) -> None:
    letter = setup.write("letter.txt", "dear reader")
    answer = setup.run(LUN_VENV=str(setup.state))
    assert answer.returncode == 7 and "no virtual environment" in answer.stderr
    assert letter.read_text() == "dear reader"


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["--tests"], {}), ([], {"LUN_TORCH": "cuda12"}), (["--reinstall-torch"], {"LUN_TORCH": "skip"})],
)
def test_what_it_does_not_know_is_refused_before_anything_is_made(
    setup: Setup, arguments: list[str], environment: dict[str, str]
) -> None:
    answer = setup.run(*arguments, **environment)
    assert answer.returncode == 2 and "error[CLI01]" in answer.stderr
    assert setup.calls() == []


@pytest.mark.parametrize("script", ["setup", "test", "demo", "lint", "amd-power"])
def test_every_script_explains_itself(repo_root: Path, script: str) -> None:
    command = ["bash", str(repo_root / "scripts" / f"{script}.sh"), "--help"]
    answer = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert answer.returncode == 0 and answer.stdout.startswith(f"usage: bash scripts/{script}.sh")


def test_continuous_integration_runs_the_same_command_as_a_person(repo_root: Path) -> None:
    assert "exec bash scripts/test.sh\n" in (repo_root / ".ci" / "run").read_text()
