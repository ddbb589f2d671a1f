"""Whole runs of the program, alone or on all ranks of a group, and how far apart their weights end."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from support.runs import TINY, load, newest_run
from torch import Tensor


def train(logs: Path, words: Sequence[str], run: Path | None = None) -> int:
    """The program in this process; called on all ranks with the same words. `run` names the run directory."""
    from lun.trainer import run as program

    if run is not None:
        os.environ["LUN_RUN_DIRECTORY"] = str(run)
    return program(["--logdir", str(logs), "-t", *words])


def tiny(data: Path, *words: str) -> list[str]:
    """The tiny program on `data` without Adam, clip and schedule, which would hide a wrong factor in a gradient."""
    plain = ["--base", str(TINY), "--data_root", str(data)]
    sgd = ["model.params.optimizer_config={target: torch.optim.SGD, params: {}}", "model.base_learning_rate=0.05"]
    free = ["lightning.trainer.gradient_clip_val=null", "model.params.scheduler_config=null"]
    return [*plain, *sgd, *free, *words]


def last(logs: Path) -> dict[str, Any]:
    """The last checkpoint of the newest run."""
    return load(newest_run(logs) / "checkpoints/last.ckpt")


def distance(found: dict[str, Tensor], wanted: dict[str, Tensor], start: dict[str, Tensor]) -> float:
    """||found - wanted|| / ||wanted - start|| over all floating weights: 1e-4 is rounding, 0.1 a wrong factor."""
    assert found.keys() == wanted.keys()
    names = [name for name, tensor in wanted.items() if tensor.is_floating_point()]
    off = sum(float((found[n].double() - wanted[n].double()).square().sum()) for n in names)
    move = sum(float((wanted[n].double() - start[n].double()).square().sum()) for n in names)
    return float(torch.tensor(off / move).sqrt())
