"""What the program around the network costs a step: lun's whole program and bare Lightning over a raw loop.

The network is the mean of 8,192 numbers in a few or many parameter tensors, taken at once, so that nothing but the loop
takes time. All three read the same kind of batches, draw, clip to norm 1 and step a fused AdamW; the raw loop and lun's
average the weights, write metrics every 50 steps and keep a progress bar. They take turns in one process (`turns`),
each of as many steps as lie between two logs.

All run on one core with one torch thread, since two cores of a shared machine are seldom equally fast, and take memory
from one heap: that of the main thread, in which lun trains, is full of holes that imports left, and small tensors cost
a tenth more there than in a thread's own.

    python tests/bench/step_overhead.py [--turns 30] [--tensors 8 212] [--json FILE]
"""

import argparse
import contextlib
import ctypes
import json
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

os.environ["LUN_THREADS"] = "1"

import torch
import yaml
from lightning.pytorch import Callback, LightningModule, Trainer
from program import ROOT
from report import Row, present
from torch import Tensor, nn
from tqdm import tqdm
from turns import Taken, Turns

import lun.callbacks.progress
from ldm.diffusion.draws import BatchDraws
from ldm.ema.lit_ema import LitEma
from ldm.models.base import TrainedModel
from ldm.position import Position
from lun.cli import parser
from lun.cli.user_code import admit_user_code
from lun.run.session import Session
from lun.run.settings import look_at_settings
from lun.trainer import run

NUMBERS = 8192
M_ARENA_MAX = -8  # of glibc's malloc.h
EVERY = 50
RAW, BARE, LUN = "raw loop", "bare Lightning", "lun"


class Colours:
    """Pictures of one colour, made where they are asked for, since the raw loop would spend half its time decoding."""

    def __len__(self) -> int:
        return 1000

    def example(self, index: int, draws: Any) -> dict[str, Any]:
        return {"image": torch.full((8, 8, 3), index / 1000), "caption": "colour"}


def weights(tensors: int) -> nn.ParameterList:
    return nn.ParameterList(nn.Parameter(torch.rand(NUMBERS // tensors)) for _ in range(tensors))


def loss_of(parameters: nn.ParameterList, batch: Mapping[str, Any], draws: BatchDraws) -> Tensor:
    """Linear, since weights that are pulled to 0 become denormal numbers, in which AdamW takes milliseconds."""
    noise = draws.normal("noise", (4,))
    return torch.cat(tuple(parameters)).mean() * (1 + 1e-3 * noise.mean())


class Mean(TrainedModel):
    """Its loss is the mean of its weights."""

    accepts = "ldm.models.base.TrainedModel"

    def __init__(self, tensors: int, **training: Any) -> None:
        super().__init__(**training)
        self.network = nn.ModuleDict({"weights": weights(tensors)})

    def configure_model(self) -> None:
        if not self._decision.settings:
            self.settle_training()

    def disk_parts(self) -> dict[str, nn.Module]:
        return {}

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        self.seed_networks(batch_idx)
        loss = loss_of(self.network["weights"], batch, self.draws(batch))  # type: ignore[arg-type]
        self.log_window(batch_idx, {"train/loss": loss, "train/loss_simple": loss}, **self.current_rates())
        return loss


TURNS = Turns(RAW, (BARE, LUN), 0, EVERY)


class TakesTurns(Callback):
    """Stands between two steps of a Trainer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._steps = 0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        TURNS.begin(self.name)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._steps += 1
        if self._steps > 1 and (self._steps - 1) % TURNS.steps == 0:
            TURNS.over()
            TURNS.begin(self.name)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        TURNS.over()


def config(folder: Path, tensors: int, steps: int) -> Path:
    """The default configuration around `Mean`."""
    ours = Path(__file__).stem
    told = {
        "extends": [str(ROOT / "configs" / "training-lightning")],
        "model": {
            "base_learning_rate": 1e-6,
            "target": f"{ours}.Mean",
            "params": {
                "tensors": tensors,
                "monitor": "train/loss",
                "ema_config": {"target": "ldm.modules.ema.LitEma", "params": {"update_every": 10}},
                "optimizer_config": {"target": "torch.optim.AdamW", "params": {"fused": True}},
            },
        },
        "data": {
            "target": "lun.data.module.DataModuleFromConfig",
            "params": {"batch_size": 2, "num_workers": 0, "train": {"target": f"{ours}.Colours", "params": {}}},
        },
        "lightning": {
            "trainer": {"max_steps": steps, "log_every_n_steps": EVERY, "gradient_clip_val": 1.0, "accelerator": "cpu"},
            "callbacks": {
                "image_logger": None,
                "turns": {"target": f"{ours}.TakesTurns", "params": {"name": LUN}},
            },
        },
    }
    file = folder / "overhead.yaml"
    file.write_text(yaml.safe_dump(told))
    return file


def session_of(words: list[str]) -> Session:
    """Data and model as the program would build them."""
    arguments = parser.parse(words)
    admit_user_code(arguments.allow, families=arguments.family)
    settings, faults = look_at_settings(arguments, None)
    if faults:
        raise ExceptionGroup("faults", faults)
    return Session.prepare(settings, arguments, None)


def raw(session: Session, folder: Path, tensors: int) -> None:
    """The loop that a person would write for one device."""
    TURNS.begin(RAW)
    parameters, position = weights(tensors), session.model.position
    module = nn.ModuleDict({"weights": parameters})
    optimizer = torch.optim.AdamW(parameters.parameters(), lr=1e-6, fused=True)
    ema, batches = LitEma(module, update_every=10), iter(session.data.train_dataloader())
    shown = monotonic()
    with (folder / "raw.jsonl").open("w") as told, tqdm(file=sys.stdout, bar_format="{desc}") as bar:
        for step in range(1, TURNS.steps_of(RAW) + 1):
            batch = next(batches)
            loss = loss_of(parameters, batch, BatchDraws(0, batch["slot"]))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            position.advance(2)
            ema.update(position.step)
            if step % EVERY == 0:
                print(json.dumps({"step": step, "train/loss": float(loss.detach())}), file=told, flush=True)
            if monotonic() - shown > 0.1:
                shown = monotonic()
                bar.set_description_str(f"{step} loss {float(loss.detach()):.3f}")
            if step % TURNS.steps == 0:
                TURNS.over()
                if step < TURNS.steps_of(RAW):
                    TURNS.begin(RAW)


class Bare(LightningModule):
    """The least module that Lightning trains."""

    def __init__(self, tensors: int) -> None:
        super().__init__()
        self.weights = weights(tensors)
        self.position = Position()

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), lr=1e-6, fused=True)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return loss_of(self.weights, batch, BatchDraws(0, batch["slot"]))


def bare(session: Session, tensors: int) -> None:
    """Lightning with nothing on it: automatic optimization and clipping."""
    none = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False, "enable_model_summary": False}
    turns = {"max_steps": TURNS.steps_of(BARE), "callbacks": [TakesTurns(BARE)]}
    trainer = Trainer(**none, **turns, accelerator="cpu", gradient_clip_val=1.0)  # type: ignore[arg-type]
    trainer.fit(Bare(tensors), session.data.train_dataloader())


@contextlib.contextmanager
def to_nowhere() -> Iterator[None]:
    """Lines of progress go nowhere, as a terminal would show them."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        lun.callbacks.progress._terminal = lambda: True
        yield


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """For this thread and those that it starts."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def measure_one(tensors: int, rounds: int, steps: int = EVERY) -> list[Row]:
    """The raw loop, and what the others take beyond it, with one number of parameter tensors."""
    global TURNS
    turns = TURNS = Turns(RAW, (BARE, LUN), rounds, steps)
    sys.modules[Path(__file__).stem].TURNS = turns  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        words = ["--base", str(config(folder, tensors, turns.steps_of(LUN))), "--allow", Path(__file__).stem]
        words += ["--logdir", str(folder / "logs"), "-t"]
        others = [
            threading.Thread(target=raw, args=(session_of(words), folder, tensors), daemon=True),
            threading.Thread(target=bare, args=(session_of(words), tensors), daemon=True),
        ]
        for other in others:
            other.start()
        if code := run(words):
            raise SystemExit(code)
        for other in others:
            other.join()
    calls = {name: turns.calls(name) for name in (RAW, BARE, LUN)}
    rows = [row_of(f"{tensors} tensors: {RAW}", turns.alone(), calls[RAW])]
    for name in (BARE, LUN):
        rows.append(row_of(f"{tensors} tensors: {name}", turns.beyond(name), calls[name] - calls[RAW]))
    return rows


def row_of(name: str, taken: Taken, calls: float) -> Row:
    return Row(name, taken.wall, "wall us", {"CPU us": taken.cpu, "calls": calls})


def measure(numbers: list[int], rounds: int, steps: int = EVERY) -> list[Row]:
    """All rows, for each number of parameter tensors."""
    with to_nowhere():
        return [row for tensors in numbers for row in measure_one(tensors, rounds, steps)]


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--turns", type=int, default=30, help="of each loop, 2 or more")
    asked.add_argument("--tensors", type=int, nargs="+", default=[8, 212])
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    warnings.simplefilter("ignore")
    ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    torch.set_num_threads(1)
    with on_one_core():
        rows = measure(told.tensors, told.turns)
    present("overhead", rows, told.json)


if __name__ == "__main__":
    from step_overhead import main as as_a_module  # the program finds its classes by the name of this module

    as_a_module()
