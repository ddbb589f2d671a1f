"""What the numbers of `configs/options/numbers.yaml` cost a step of the demo: CPU time within their own code.

    python tests/bench/numbers_cost.py [--steps 200] [--json FILE]

The difference of two runs would be lost in the noise of a machine, so the time in hooks of these callbacks, and in
keeping the losses of examples, is counted while they train. One torch thread; nothing is validated or saved.
"""

import argparse
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import process_time, thread_time
from typing import Any

from program import ROOT

os.environ["LUN_THREADS"] = "1"

import torch
from lightning.pytorch import Callback
from report import Row, present

import lun.callbacks
from ldm.models.example_losses import ExampleLosses
from lun.trainer import run

OF_EXAMPLES = ("LossByNoiseLevel", "LossBySize", "LossByTag", "PictureLosses", "HeldOutGap")
OF_STEPS = ("GradientNorms", "WeightChanges")
BASES = ("training-lightning.yaml", "demo/emoji.yaml", "options/numbers.yaml")
WARM_UP = 10
SPENT: Counter[str] = Counter()


class Stopwatch(Callback):
    """CPU time of the process from step `WARM_UP` to the end of training."""

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx == WARM_UP:
            SPENT.clear()
            SPENT["begun"] = process_time()  # type: ignore[assignment]

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        SPENT["whole"] = process_time() - SPENT["begun"]  # type: ignore[assignment]


def timed(owner: type, name: str, under: str) -> None:
    """Count the time in a method, whoever's class it is written in."""
    method: Callable[..., Any] = getattr(owner, name)

    def counted(self: Any, *args: Any, **named: Any) -> Any:
        began = thread_time()
        try:
            return method(self, *args, **named)
        finally:
            SPENT[under] += thread_time() - began  # type: ignore[assignment]

    setattr(owner, name, counted)


def measure(steps: int) -> list[Row]:
    """The demo's step in CPU milliseconds, and what of it the numbers take."""
    for kind in (*OF_EXAMPLES, *OF_STEPS):
        timed(getattr(lun.callbacks, kind), "on_train_batch_end", "numbers")
    for kind in OF_STEPS:
        timed(getattr(lun.callbacks, kind), "on_before_optimizer_step", "numbers")
    timed(ExampleLosses, "add", "numbers")
    off = [f"lightning.callbacks.{name}=null" for name in ("image_logger", "periodic_checkpoint_overwrite")]
    off += ["lightning.callbacks.monitored_checkpoint=null", "data.params.validation=null"]
    length = [
        f"lightning.trainer.max_steps={steps + WARM_UP}",
        "lightning.callbacks.watch.target=numbers_cost.Stopwatch",
    ]
    with tempfile.TemporaryDirectory() as logs:
        bases = [str(ROOT / "configs" / base) for base in BASES]
        code = run(["--base", *bases, "--logdir", logs, "--allow", "numbers_cost", "-t", *length, *off])
    if code:
        raise SystemExit(code)
    whole, own = SPENT["whole"] / steps, SPENT["numbers"] / steps
    return [
        Row("the demo's step", 1e3 * whole, "CPU ms", {}),
        Row("all numbers", 1e3 * own, "CPU ms", {"share": own / whole}),
    ]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--steps", type=int, default=200)
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    torch.set_num_threads(1)
    present("numbers_cost", measure(told.steps), told.json)


if __name__ == "__main__":
    from numbers_cost import main as as_a_module  # the program finds its classes by the name of this module

    as_a_module()
