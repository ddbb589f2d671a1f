"""What scripts/kubernetes.yaml and scripts/skypilot.yaml start, up to main.py's own check of its line, and again."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from torch.distributed.run import get_args_parser

from lun.cli.parser import parse
from lun.run_dir.job import Job, this_job
from lun.trainer import run

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Start:
    """One machine's start: torchrun's words as the cluster gives them, its environment, and which folders stay."""

    words: list[str]
    environment: dict[str, str]
    machines: int
    gpus: int
    kept: list[str]
    read: list[str]

    @property
    def launched(self) -> Any:
        """What torchrun understands. Raises `SystemExit` for an option that it does not know."""
        return get_args_parser().parse_args(self.words)


def manifest() -> dict[str, Any]:
    stored: dict[str, Any] = yaml.safe_load((ROOT / "scripts/kubernetes.yaml").read_text("utf-8"))
    return stored


def on_kubernetes() -> Start:
    """As the operator starts the second pod: it sets RANK and the master's address, which Kubernetes puts in."""
    replicas = manifest()["spec"]["pytorchReplicaSpecs"]
    spec = replicas["Worker"]["template"]["spec"]
    (container,) = spec["containers"]
    given = {"RANK": "1", "MASTER_ADDR": "lun-master-0", "MASTER_PORT": "23456"}
    words = [re.sub(r"\$\((\w+)\)", lambda found: given[found[1]], word) for word in container["args"]]
    assert words.pop(0) == "torchrun" and all(isinstance(word, str) for word in words)
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    mounts = {one["mountPath"]: volumes[one["name"]] for one in container["volumeMounts"]}
    claims = {path: volume["persistentVolumeClaim"] for path, volume in mounts.items() if "emptyDir" not in volume}
    assert mounts["/dev/shm"]["emptyDir"]["medium"] == "Memory"
    return Start(
        words,
        {one["name"]: one["value"] for one in container["env"]},
        sum(part["replicas"] for part in replicas.values()),
        container["resources"]["limits"]["nvidia.com/gpu"],
        [path for path, claim in claims.items() if not claim.get("readOnly")],
        list(claims),
    )


def on_skypilot(place: Path) -> Start:
    """As a machine starts that took over: its shell's lines, with a torchrun that tells what it was given."""
    task = yaml.safe_load((ROOT / "scripts/skypilot.yaml").read_text("utf-8"))
    assert task["workdir"] == "." and task["resources"]["use_spot"]
    torchrun = place / ".venv/bin/torchrun"
    torchrun.parent.mkdir(parents=True)
    torchrun.write_text('#!/usr/bin/env bash\nprintf "%s\\n" "$LUN_JOB" "$TORCH_ELASTIC_SHUTDOWN_TIMEOUT" "$@"\n')
    torchrun.chmod(0o755)
    gpus = int(task["resources"]["accelerators"].partition(":")[2])
    given = {"SKYPILOT_TASK_ID": "sky-managed-7", "SKYPILOT_NODE_RANK": "0", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"}
    given |= {"SKYPILOT_NUM_NODES": str(task["num_nodes"]), "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus)}
    done = subprocess.run(
        ["bash", "-euc", task["run"]], cwd=place, env={**given, "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    name, seconds, *words = done.stdout.splitlines()
    mounts = task["file_mounts"]
    return Start(
        words,
        {"LUN_JOB": name, "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": seconds},
        task["num_nodes"],
        gpus,
        [path for path, mount in mounts.items() if mount["mode"] == "MOUNT_CACHED"],
        list(mounts),
    )


@pytest.fixture(params=["kubernetes", "skypilot"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    return on_kubernetes() if request.param == "kubernetes" else on_skypilot(tmp_path)


def test_every_gpu_of_every_machine_gets_a_rank(start: Start) -> None:
    launched = start.launched
    assert (launched.nnodes, launched.nproc_per_node) == (str(start.machines), str(start.gpus))
    assert launched.training_script == "main.py" and launched.master_addr and launched.master_port
    wanted = {f"lightning.trainer.devices={start.gpus}", f"lightning.trainer.num_nodes={start.machines}"}
    assert wanted <= set(parse(launched.training_script_args).overrides)


def test_the_line_has_no_faults(start: Start, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(ROOT)
    words = start.launched.training_script_args
    assert words.count("-t") == 1
    assert run([*(word for word in words if word != "-t"), "--check"]) == 0, capsys.readouterr().err


def test_a_machine_that_takes_over_goes_on_with_what_the_job_began(start: Start) -> None:
    """The line and the job's name are the same, the run outlives the machine, and torchrun waits for last.ckpt."""
    job = this_job({**start.environment, "TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0"})
    assert job == Job(f"LUN_JOB={start.environment['LUN_JOB']}", again=True)
    arguments = parse(start.launched.training_script_args)
    assert any(Path(arguments.logdir).is_relative_to(path) for path in start.kept)
    assert int(start.environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) >= 60
    for place in (*arguments.data_root, str(arguments.init_from)):
        assert any(Path(place).is_relative_to(path) for path in set(start.read) - set(start.kept)), place


def test_kubernetes_waits_for_torchrun_and_starts_an_image_that_is_built_here() -> None:
    parts = manifest()["spec"]["pytorchReplicaSpecs"]
    assert parts["Master"]["template"] == parts["Worker"]["template"] and parts["Master"]["replicas"] == 1
    for part in parts.values():
        spec, seconds = part["template"]["spec"], on_kubernetes().environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]
        assert part["restartPolicy"] == "OnFailure" and spec["terminationGracePeriodSeconds"] > int(seconds)
        assert spec["securityContext"]["runAsUser"] > 0
        compose = yaml.safe_load((ROOT / "docker/compose.yml").read_text("utf-8"))
        (container,) = spec["containers"]
        assert container["image"] in {service["image"] for service in compose["services"].values()}
        assert container["workingDir"] == "/lun" and container["name"] == "pytorch"


def test_skypilot_installs_by_the_script_of_the_project() -> None:
    task = yaml.safe_load((ROOT / "scripts/skypilot.yaml").read_text("utf-8"))
    assert task["setup"] == "LUN_TORCH=cuda bash scripts/setup.sh"
    assert "8" in task["resources"]["accelerators"] and task["file_mounts"]["/data"]["mode"] == "COPY"


def test_the_page_on_several_machines_names_the_files() -> None:
    text = (ROOT / "lun/strategies/README.md").read_text("utf-8")
    assert all((ROOT / f"scripts/{name}").is_file() and name in text for name in ("kubernetes.yaml", "skypilot.yaml"))
    assert "LUN_JOB" in text and "LUN_JOB" in (ROOT / "docs/safety.md").read_text("utf-8")
