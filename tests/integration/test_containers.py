"""docker/start.sh asks docker or podman for exactly what it should; both engines and the hardware are stand-ins."""

import os
import pty
import subprocess
from pathlib import Path

import pytest
import yaml
from support.machine import ENGINES, Machine

KINDS = ("cuda", "rocm", "cpu")


@pytest.fixture
def machine(repo_root: Path, tmp_path: Path) -> Machine:
    return Machine(repo_root, tmp_path)


USER = {"docker": ["--user", "1000:1001"], "podman": ["--userns=keep-id", "--user", "1000:1001"]}
KFD = ["--device", "/dev/kfd", "--device", "/dev/dri"]
GROUPS = {"docker": ["--group-add", "44", "--group-add", "992"], "podman": ["--group-add", "keep-groups"]}
DEVICES = {
    ("cuda", "docker", "all"): ["--gpus", "all"],
    ("cuda", "docker", "0,1"): ["--gpus", '"device=0,1"'],
    ("cuda", "podman", "all"): ["--device", "nvidia.com/gpu=all"],
    ("cuda", "podman", "0,1"): ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"],
    ("rocm", "docker", "all"): KFD + GROUPS["docker"],
    ("rocm", "docker", "0,1"): KFD + GROUPS["docker"] + ["--env", "ROCR_VISIBLE_DEVICES=0,1"],
    ("rocm", "podman", "all"): KFD + GROUPS["podman"],
    ("rocm", "podman", "0,1"): KFD + GROUPS["podman"] + ["--env", "ROCR_VISIBLE_DEVICES=0,1"],
    ("cpu", "docker", "all"): [],
    ("cpu", "podman", "all"): [],
}


@pytest.mark.parametrize(("kind", "engine", "gpus"), DEVICES)
def test_the_printed_command_is_exactly_this(machine: Machine, kind: str, engine: str, gpus: str) -> None:
    machine.has(engine, "cuda", "rocm", "cdi")
    choice = [] if gpus == "all" else ["--gpus", gpus]
    _, run = machine.printed(kind, *choice, "--", "python", "main.py", "a b=c")
    flags = ",Z" if engine == "podman" else ""
    assert run == [
        *(engine, "run", "--rm", "--pull=never", "--stop-timeout", "600"),
        *(*USER[engine], "--ipc=host", *DEVICES[kind, engine, gpus], *machine.volumes(flags)),
        *("--interactive", f"lun:{kind}", "python", "main.py", "a b=c"),
    ]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_folders_of_data_and_weights_keep_their_paths_and_are_read_only(
    machine: Machine, kind: str, engine: str
) -> None:
    machine.has(engine, "cuda", "rocm", "cdi")
    data, models = machine.home / "my pictures", machine.state / "models"
    data.mkdir()
    models.mkdir()
    _, run = machine.printed(kind, "--data", str(data), "--models=models")
    flags = ",Z" if engine == "podman" else ""
    expected = machine.volumes(flags, f"{data}:{data}:ro{flags}", f"{models}:{models}:ro{flags}")
    at = run.index("--volume")
    assert run[at : at + len(expected)] == expected


def test_a_link_to_a_folder_keeps_its_name_and_a_dot_gets_one(machine: Machine) -> None:
    (machine.home / "pictures").symlink_to(machine.state)
    _, run = machine.has("docker").printed("cpu", "--data", f"{machine.home}/pictures", "--models", ".")
    assert f"{machine.home}/pictures:{machine.home}/pictures:ro" in run
    assert f"{machine.state}:{machine.state}:ro" in run


@pytest.mark.parametrize("engine", ENGINES)
def test_runs_go_where_logs_says(machine: Machine, engine: str) -> None:
    _, run = machine.has(engine).printed("cpu", "--logs", "elsewhere")
    flags = ",Z" if engine == "podman" else ""
    assert f"{machine.state}/elsewhere:/lun/logs:rw{flags}" in run


def test_the_build_is_shown_before_the_run_where_there_is_no_image(machine: Machine) -> None:
    build, run = machine.has("docker").printed("cpu", LUN_TORCH_INDEX="https://example.org/wheels")
    label = build[build.index("--label") + 1]
    assert label.startswith("lun.parts=") and run[:2] == ["docker", "run"]
    assert build == [
        *("docker", "build", "--file", f"{machine.project}/docker/Dockerfile", "--build-arg", "KIND=cpu"),
        *("--build-arg", "LUN_TORCH_INDEX=https://example.org/wheels"),
        *("--label", label, "--tag", "lun:cpu", str(machine.project)),
    ]


def test_an_image_is_built_again_only_when_what_it_installs_has_changed(machine: Machine) -> None:
    build, _ = machine.has("docker").printed("cpu")
    machine.write("label", build[build.index("--label") + 1].removeprefix("lun.parts=") + "\n")
    assert len(machine.printed("cpu")) == 1
    assert len(machine.printed("cpu", "--build")) == 2
    (machine.project / "constraints.txt").write_text("numpy==1.0\n")
    assert len(machine.printed("cpu")) == 2


def test_printing_starts_and_writes_nothing(machine: Machine) -> None:
    machine.has("docker").printed("cpu", "--build")
    assert {call.split()[1] for call in machine.calls()} == {"--version", "info"}
    assert list(machine.home.iterdir()) == [] and not (machine.project / "logs").exists()


def test_a_command_is_printed_for_an_engine_that_does_not_answer(machine: Machine) -> None:
    machine.has("docker").write("silent")
    assert machine.printed("cpu")[-1][:2] == ["docker", "run"]


@pytest.mark.parametrize(("there", "kind"), [(("cuda", "rocm"), "cuda"), (("rocm",), "rocm"), ((), "cpu")])
def test_without_a_kind_the_machine_decides(machine: Machine, there: tuple[str, ...], kind: str) -> None:
    machine.has("docker", *there)
    assert f"lun:{kind}" in machine.printed()[-1]


def test_docker_comes_first_where_both_are_and_a_person_may_choose(machine: Machine) -> None:
    machine.has("docker", "podman")
    assert machine.printed("cpu")[-1][0] == "docker"
    assert machine.printed("cpu", LUN_ENGINE="podman")[-1][0] == "podman"


def test_podman_takes_over_where_docker_does_not_answer(machine: Machine) -> None:
    machine.has("docker", "podman").write("docker-is-silent")
    assert machine.printed("cpu")[-1][0] == "podman"


def test_podman_under_the_name_of_docker_is_treated_as_podman(machine: Machine) -> None:
    machine.has("docker").write("version", "podman version 5.4.0\n")
    assert "--userns=keep-id" in machine.printed("cpu")[-1]


def test_the_root_of_a_rootless_docker_is_the_caller(machine: Machine) -> None:
    machine.has("docker").write("info", '["name=seccomp","name=rootless"]\n')
    run = machine.printed("cpu")[-1]
    assert run[run.index("--user") + 1] == "0:0"


def test_for_root_podman_maps_no_users_and_groups_are_numbers(machine: Machine) -> None:
    machine.has("podman", "rocm").write("uid", "0\n")
    run = machine.printed("rocm")[-1]
    assert "--userns=keep-id" not in run and run.count("--group-add") == 2


@pytest.mark.parametrize(
    ("kind", "option"), [("cpu", "label=level:s0:c271,c828"), ("cuda", "label=disable"), ("rocm", "label=disable")]
)
def test_where_selinux_is_on_podman_is_told_how_to_label(machine: Machine, kind: str, option: str) -> None:
    run = machine.has("podman", "cuda", "rocm", "cdi", "selinux").printed(kind)[-1]
    assert run[run.index("--security-opt") + 1] == option


def test_a_terminal_is_handed_on(machine: Machine) -> None:
    machine.has("docker")
    ours, theirs = pty.openpty()
    command = [machine.bin / "bash", machine.project / "docker/start.sh", "cpu", "--print"]
    subprocess.run(command, env=machine.environment, stdin=theirs, stdout=theirs, stderr=theirs, check=True)
    assert "--interactive --tty lun:cpu" in os.read(ours, 100_000).decode()


def test_tokens_and_settings_of_the_caller_are_passed_by_name_alone(machine: Machine) -> None:
    answer = machine.has("docker").start("cpu", "--print", HF_TOKEN="hf_secret", MIOPEN_FIND_MODE="2")
    assert "--env HF_TOKEN --env MIOPEN_FIND_MODE" in answer.stdout
    assert "secret" not in answer.stdout + answer.stderr


def test_a_start_builds_makes_the_folders_and_runs(machine: Machine) -> None:
    answer = machine.has("podman").start("cpu", "--", "true")
    assert answer.returncode == 0, answer.stderr
    assert [call.split()[1] for call in machine.calls()] == ["--version", "info", "image", "build", "run"]
    assert sorted(path.name for path in (machine.home / ".cache").iterdir()) == ["huggingface", "lun", "pip"]
    assert (machine.project / "logs").is_dir() and answer.stdout == ""


@pytest.mark.parametrize("code", [1, 6, 130, 143])
def test_the_exit_code_is_that_of_the_container(machine: Machine, code: int) -> None:
    machine.has("docker").write("run", str(code))
    assert machine.start("cpu", "--", "python", "main.py").returncode == code


def test_the_script_becomes_the_engine_so_that_signals_reach_it(machine: Machine) -> None:
    command = [machine.bin / "bash", machine.project / "docker/start.sh", "cpu", "--", "true"]
    started = subprocess.Popen(command, env=machine.has("docker").environment, stderr=subprocess.DEVNULL)
    assert started.wait() == 0
    assert (machine.state / "pid").read_text() == f"{started.pid}\n"


def refused(machine: Machine, *arguments: str, **environment: str) -> tuple[int, str]:
    """Exit code and message of a start that must not happen."""
    answer = machine.start(*arguments, **environment)
    assert not any(call.split()[1] == "run" for call in machine.calls())
    assert answer.stderr.count("error[") == 1 and "  fix:   " in answer.stderr
    return answer.returncode, answer.stderr


def test_without_an_engine_it_says_what_to_install(machine: Machine) -> None:
    code, message = refused(machine, "cpu")
    assert code == 7
    assert message == (
        "error[DEP01]: no container engine found\n"
        "  why:   not on PATH: docker podman\n"
        "  fix:   install one (Debian, Ubuntu: sudo apt install podman), or work without: bash scripts/setup.sh\n"
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_does_not_answer_is_told_with_its_own_words(machine: Machine, engine: str) -> None:
    machine.has(engine).write("silent")
    code, message = refused(machine, "cpu")
    assert code == 7 and f"{engine} is installed but does not answer\n  why:   Cannot connect to docker" in message


@pytest.mark.parametrize(("kind", "vendor"), [("cuda", "NVIDIA"), ("rocm", "AMD")])
def test_a_kind_that_the_machine_has_not_is_refused(machine: Machine, kind: str, vendor: str) -> None:
    code, message = refused(machine.has("docker"), kind)
    assert code == 5 and f"error[DEV01]: no {vendor} GPU found" in message and "docker/start.sh cpu" in message


def test_a_driver_that_does_not_answer_is_quoted(machine: Machine) -> None:
    machine.has("docker").program("nvidia-smi", 'echo "Driver/library version mismatch" && exit 18')
    code, message = refused(machine, "cuda")
    assert code == 5 and "why:   Driver/library version mismatch\n" in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every device")
def test_a_gpu_that_the_caller_may_not_use_names_the_groups(machine: Machine) -> None:
    machine.has("docker", "rocm")
    (machine.sysroot / "dev/kfd").chmod(0)
    code, message = refused(machine, "rocm")
    assert code == 5 and "usermod -aG video,render me" in message


def test_podman_without_a_description_of_the_gpus_says_how_to_make_one(machine: Machine) -> None:
    code, message = refused(machine.has("podman", "cuda"), "cuda")
    assert code == 7 and "nvidia-ctk cdi generate" in message


@pytest.mark.parametrize(("option", "id", "expected"), [("--data", "DAT01", 3), ("--models", "MOD01", 4)])
def test_a_folder_that_does_not_exist_is_told_with_what_is_there(
    machine: Machine, option: str, id: str, expected: int
) -> None:
    (machine.home / "pony").mkdir()
    code, message = refused(machine.has("docker"), "cpu", option, f"{machine.home}/ponies/2026")
    assert code == expected and f"error[{id}]" in message
    assert f"nearest existing parent is {machine.home}, which contains: pony\n" in message


def test_a_folder_for_runs_that_cannot_be_made_is_refused(machine: Machine) -> None:
    machine.write("file")
    code, message = refused(machine.has("docker"), "cpu", "--logs", f"{machine.state}/file/logs")
    assert code == 8 and "error[DSK01]" in message


def test_a_build_that_fails_starts_nothing(machine: Machine) -> None:
    machine.has("docker").write("build", "1")
    code, message = refused(machine, "cpu", "--", "true")
    assert code == 7 and "the image lun:cpu could not be built" in message and "exit code 1" in message


@pytest.mark.parametrize(
    "arguments",
    [
        ["gpu"],
        ["cuda", "rocm"],
        ["cpu", "--gpus", "0"],
        ["cuda", "--gpus", "0,"],
        ["cpu", "--data"],
        ["cpu", "python", "main.py"],
        ["cpu", "--logs", "a:b"],
    ],
    ids=" ".join,
)
def test_what_it_does_not_know_is_refused_before_anything_is_made(machine: Machine, arguments: list[str]) -> None:
    code, message = refused(machine.has("docker", "cuda"), *arguments)
    assert code == 2 and "error[CLI0" in message
    assert not any(call.split()[1] == "build" for call in machine.calls())


def test_it_explains_itself_without_an_engine(machine: Machine) -> None:
    answer = machine.start("--help")
    assert answer.returncode == 0 and answer.stdout.startswith("usage: docker/start.sh")


@pytest.fixture
def compose(repo_root: Path) -> dict:
    return yaml.safe_load((repo_root / "docker/compose.yml").read_text())["services"]


def test_compose_has_the_three_kinds_as_profiles(compose: dict) -> None:
    assert {name: service["profiles"] for name, service in compose.items()} == {kind: [kind] for kind in KINDS}
    assert {name: service["build"]["args"] for name, service in compose.items()} == {k: {"KIND": k} for k in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_compose_gives_a_container_what_the_script_gives_it(machine: Machine, compose: dict, kind: str) -> None:
    service = compose[kind]
    assert service["image"] == f"lun:{kind}" and service["ipc"] == "host" and service["stop_grace_period"] == "10m"
    assert "LUN_UID:?" in service["user"] and "LUN_GID:?" in service["user"]
    mounted = {volume.rpartition("}")[2] or volume for volume in service["volumes"]}
    assert {".:/lun:ro", ":/lun/logs", ":/home/lun/.cache/huggingface", ":/home/lun/.cache/lun", ":ro"} == mounted


def test_the_entry_replaces_itself_by_the_command(repo_root: Path, tmp_path: Path) -> None:
    command = ["bash", repo_root / "docker/entry.sh", "bash", "-c", "echo $$ $PPID && exit 43"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    said, _ = started.communicate()
    assert started.returncode == 43 and said.split() == [str(started.pid), str(os.getpid())]


def test_without_a_command_the_entry_says_what_to_run_and_opens_a_shell(repo_root: Path) -> None:
    command = ["bash", str(repo_root / "docker/entry.sh")]
    environment = {"PATH": os.environ["PATH"], "LUN_KIND": "rocm"}
    answer = subprocess.run(command, input="exit 7\n", env=environment, capture_output=True, text=True)
    assert (
        answer.returncode == 7 and "container for rocm" in answer.stdout and "python main.py --doctor" in answer.stdout
    )
