"""What scripts/slurm.sbatch starts, and when it queues its job again; srun and scontrol are stand-ins that tell."""

import subprocess
from pathlib import Path

import pytest

STAND_IN = '#!/usr/bin/env bash\necho "{name} $*" >>"$TOLD"\nexit {code}\n'


@pytest.fixture
def submit(repo_root: Path, tmp_path: Path):
    """`submit(code of the program, words...) -> (exit code, what was called)`."""

    def run(code: int, *words: str) -> tuple[int, list[str]]:
        for name, result in {"srun": code, "scontrol": 0}.items():
            (tmp_path / name).write_text(STAND_IN.format(name=name, code=result))
            (tmp_path / name).chmod(0o755)
        told = tmp_path / "told"
        told.unlink(missing_ok=True)
        job = {"SLURM_JOB_ID": "7", "SLURM_NTASKS_PER_NODE": "8", "SLURM_JOB_NUM_NODES": "2"}
        places = {"SLURM_SUBMIT_DIR": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin", "TOLD": str(told)}
        script = repo_root / "scripts" / "slurm.sbatch"
        done = subprocess.run(["bash", str(script), *words], env={**job, **places}, cwd=tmp_path)
        return done.returncode, told.read_text().splitlines()

    return run


STARTED = "srun --kill-on-bad-exit=1 .venv/bin/python main.py"
RANKS = "--devices 8 --num_nodes 2 -t"


def test_the_first_start_passes_the_words_on(submit) -> None:
    assert submit(0, "--base", "a.yaml") == (0, [f"{STARTED} --base a.yaml --logdir logs/slurm-7 {RANKS}"])


def test_a_stopped_run_is_queued_again_and_then_started_by_the_same_line(submit, tmp_path: Path) -> None:
    first, requeued = submit(143, "--base", "a.yaml")[1]
    assert requeued == "scontrol requeue 7"
    (tmp_path / "logs/slurm-7/latest").mkdir()
    assert submit(0, "--base", "a.yaml") == (0, [first])


@pytest.mark.parametrize("code", [1, 4, 70])
def test_an_error_is_not_tried_again(submit, code: int) -> None:
    found, called = submit(code)
    assert found == code and len(called) == 1
