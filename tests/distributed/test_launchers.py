"""The program as a person starts it on two ranks, and four ranks that form copies of shards. Slow: many processes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.ranks import Ranks, free_port
from support.runs import newest_run
from support.together import MICRO, distance, last, tiny, train

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SAME = ["model.params.unet_config.params.dropout=0.0", "lightning.trainer.max_steps=4"]
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return {**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "LUN_THREADS": "1"}


def launched(words: list[str], folder: Path, *options: str, seconds: float = 280) -> subprocess.CompletedProcess[str]:
    """`main.py` as `torchrun` with these options starts it on two ranks, once it has ended."""
    return started(words, folder, *TORCHRUN, str(free_port()), *options, seconds=seconds)


def started(words: list[str], folder: Path, *before: str, seconds: float = 280) -> subprocess.CompletedProcess[str]:
    """`python BEFORE main.py WORDS`, once it has ended."""
    line = [sys.executable, *before, str(ROOT / "main.py"), *words]
    return subprocess.run(line, env=environment(), cwd=folder, capture_output=True, text=True, timeout=seconds)


@pytest.mark.parametrize("launcher", ["torchrun", "ours"])
def test_one_command_trains_on_two_ranks_in_one_directory_with_one_seed(
    launcher: str, pictures: Path, tmp_path: Path
) -> None:
    words = [*tiny(pictures, *SAME), "-s", "-1", "--devices", "2", "--logdir", str(tmp_path), "-t"]
    done = (launched if launcher == "torchrun" else started)(words, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len([path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()]) == 1
    assert "2 x devices 2" in done.stdout or "devices 2 = 4 images" in done.stdout
    assert last(tmp_path)["lun"]["position"]["slot"] == 16


@pytest.mark.timeout(900)
def test_a_rank_that_dies_and_comes_back_goes_on_with_the_run_and_makes_no_step_twice(
    pictures: Path, tmp_path: Path
) -> None:
    saver = "{target: lun.callbacks.Checkpoint, params: {filename: often, every_n_train_steps: 1}}"
    dies = "{target: support.trouble.Dies, params: {step: 2, rank: 1}}"
    words = [*tiny(pictures, *SAME), "--allow", "support", f"lightning.callbacks.often={saver}"]
    words += [f"lightning.callbacks.dies={dies}", "--devices", "2", "--logdir", str(tmp_path), "-t"]
    done = launched(words, tmp_path, "--max-restarts", "1", seconds=800)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "again    torchrun" in done.stdout and "at step 2" in done.stdout
    assert len([path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()]) == 1
    assert last(tmp_path)["lun"]["position"]["slot"] == 16


def test_a_rank_that_fails_within_a_step_ends_both_and_leaves_the_last_checkpoint(
    pictures: Path, tmp_path: Path
) -> None:
    saver = "{target: lun.callbacks.Checkpoint, params: {filename: often, every_n_train_steps: 2}}"
    fails = "{target: support.trouble.Fails, params: {step: 3, rank: 1, where: step}}"
    words = [*tiny(pictures, *SAME), "--allow", "support", f"lightning.callbacks.often={saver}"]
    words += [f"lightning.callbacks.fails={fails}", "--devices", "2", "--logdir", str(tmp_path), "-t"]
    began = time.monotonic()
    done = launched(words, tmp_path)
    assert done.returncode != 0
    assert time.monotonic() - began < 200
    told = done.stdout + done.stderr
    assert "the last checkpoint is checkpoints/often.ckpt" in told
    assert [path.name for path in (newest_run(tmp_path) / "checkpoints").glob("*.ckpt")] == ["often.ckpt"]


SRUN = """#!/usr/bin/env bash
# Two machines of one task each: what comes after the option is started on both.
for node in 0 1; do
  SLURM_PROCID=$node SLURM_NODEID=$node SLURM_LOCALID=0 "${@:2}" &
done
code=0
for task in $(jobs -p); do wait "$task" || code=$?; done
exit $code
"""


def test_a_slurm_job_on_two_machines_is_queued_again_when_it_is_stopped_and_then_ends(
    pictures: Path, tmp_path: Path
) -> None:
    """`srun` and `scontrol` are stand-ins; script, ranks and the way that they find each other are not."""
    for name, script in {"srun": SRUN, "scontrol": f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n'}.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    job = {"SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "lun", "SLURM_JOB_NUM_NODES": "2", "SLURM_NNODES": "2"}
    job |= {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "1", "SLURM_SUBMIT_DIR": str(ROOT)}
    job |= {"LUN_LOGDIR": str(tmp_path / "logs"), "LUN_VENV": sys.prefix, "MASTER_PORT": str(free_port())}
    stopped = "{target: support.trouble.Terminated, params: {step: 2, ranks: [1]}}"
    words = [*tiny(pictures, *SAME, *MICRO), "--allow", "support", f"lightning.callbacks.stopped={stopped}"]
    line = ["bash", str(ROOT / "scripts" / "slurm.sbatch"), *words]
    environ = {**environment(), **job, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    for start, (code, step) in enumerate(((143, 3), (0, 4))):
        again = {**environ, "SLURM_RESTART_COUNT": str(start)}
        done = subprocess.run(line, env=again, cwd=tmp_path, capture_output=True, text=True, timeout=140)
        assert done.returncode == code, done.stdout + done.stderr
        assert last(tmp_path / "logs")["lun"]["position"]["slot"] == 4 * step
    assert (tmp_path / "asked").read_text() == "requeue 77\n"
    assert len([path for path in (tmp_path / "logs").iterdir() if path.is_dir() and not path.is_symlink()]) == 1


def test_copies_of_shards_on_four_ranks_end_at_the_weights_of_one_process(pictures: Path, tmp_path: Path) -> None:
    params = "lightning.trainer.strategy.params"
    words = tiny(pictures, *SAME)
    hsdp = ["lightning.trainer.devices=4", "lightning.trainer.strategy.target=lun.strategies.fsdp.FSDP"]
    hsdp += [f"{params}.block_size=500", f"{params}.shard_size=2", "data.params.batch_size=1"]
    group = Ranks(tmp_path / "ranks", 4, deadline=280)
    try:
        assert group(train, tmp_path / "four", [*words, *hsdp]) == [0] * 4
    finally:
        group.close()
    one = ["data.params.batch_size=4"]
    assert train(tmp_path / "one", [*words, *one]) == 0
    still = ["lightning.trainer.max_steps=1", "model.base_learning_rate=0.0"]
    assert train(tmp_path / "start", [*words, *one, *still]) == 0
    four, alone, start = (last(tmp_path / name)["state_dict"] for name in ("four", "one", "start"))
    assert distance(four, alone, start) < 1e-4
