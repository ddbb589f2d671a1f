"""The program as a person starts it on two ranks, and four ranks that form copies of shards. Slow: many processes."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.ranks import Ranks, free_port
from support.runs import newest_run
from support.together import distance, last, tiny, train

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SAME = ["model.params.unet_config.params.dropout=0.0", "lightning.trainer.max_steps=4"]
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port"]


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    return {**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "LUN_THREADS": "1"}


@pytest.mark.parametrize("launcher", ["torchrun", "ours"])
def test_one_command_trains_on_two_ranks_in_one_directory_with_one_seed(
    launcher: str, pictures: Path, tmp_path: Path
) -> None:
    before = [*TORCHRUN, str(free_port())] if launcher == "torchrun" else []
    words = [*tiny(pictures, *SAME), "-s", "-1", "--devices", "2", "--logdir", str(tmp_path), "-t"]
    line = [sys.executable, *before, str(ROOT / "main.py"), *words]
    done = subprocess.run(line, env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len([path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()]) == 1
    assert "2 x devices 2" in done.stdout or "devices 2 = 4 images" in done.stdout
    assert last(tmp_path)["lun"]["position"]["slot"] == 16


def test_a_rank_that_fails_within_a_step_ends_both_and_leaves_the_last_checkpoint(
    pictures: Path, tmp_path: Path
) -> None:
    saver = "{target: lun.callbacks.Checkpoint, params: {filename: often, every_n_train_steps: 2}}"
    fails = "{target: support.trouble.Fails, params: {step: 3, rank: 1, where: step}}"
    words = [*tiny(pictures, *SAME), "--allow", "support", f"lightning.callbacks.often={saver}"]
    words += [f"lightning.callbacks.fails={fails}", "--devices", "2", "--logdir", str(tmp_path), "-t"]
    line = [sys.executable, *TORCHRUN, str(free_port()), str(ROOT / "main.py"), *words]
    began = time.monotonic()
    done = subprocess.run(line, env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode != 0
    assert time.monotonic() - began < 200
    told = done.stdout + done.stderr
    assert "the last checkpoint is checkpoints/often.ckpt" in told
    assert [path.name for path in (newest_run(tmp_path) / "checkpoints").glob("*")] == ["often.ckpt"]


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
