"""What the program around the network costs a step: lun's whole program and bare Lightning over a raw loop.

The network is a mean over a few parameter tensors, so that nothing but the loop takes time. All three read the same
kind of batches, draw, clip to norm 1 and step a fused AdamW; the raw loop and lun's average the weights, write metrics
every 50 steps and keep a progress bar. They take turns of some steps in one process, so they see the same machine.
In us a step: wall of the quietest quartile of turns, CPU the median of all. One torch thread. All take memory from one
heap: that of the main thread, in which lun trains, is full of holes that imports left, and small tensors cost a tenth
more there than in a thread's own.

    python tests/bench/step_overhead.py [--turns 60] [--steps 40] [--tensors 8 212] [--json FILE]
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
from statistics import median, quantiles
from time import monotonic, perf_counter, process_time
from typing import Any

os.environ["LUN_THREADS"] = "1"

import torch
import yaml
from lightning.pytorch import Callback, LightningModule, Trainer
from program import ROOT
from report import Row, present
from torch import Tensor, nn
from tqdm import tqdm

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
    return torch.stack([one.mean() for one in parameters]).mean() * (1 + 1e-3 * noise.mean())


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


class Turns:
    """Who trains now, and what each turn took: `over(name)` ends a turn and returns when the next one begins."""

    def __init__(self, names: list[str], turns: int, steps: int) -> None:
        self.names, self.turns, self.steps = names, turns, steps
        self.taken: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        self._now = 0
        self._changed = threading.Condition()
        self._began: tuple[float, float] | None = None

    @property
    def total(self) -> int:
        """Steps of each in all; the first turn is not counted."""
        return self.steps * (self.turns + 1)

    def begin(self, name: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.names[self._now] == name)
        self._began = perf_counter(), process_time()

    def over(self, name: str) -> None:
        assert self._began is not None
        wall, cpu = perf_counter() - self._began[0], process_time() - self._began[1]
        self.taken[name].append((wall / self.steps, cpu / self.steps))
        with self._changed:
            self._now = (self._now + 1) % len(self.names)
            self._changed.notify_all()

    def row(self, name: str) -> tuple[float, float]:
        """Microseconds a step: wall of the quietest quartile, median of CPU."""
        wall, cpu = zip(*self.taken[name][1:], strict=True)
        return 1e6 * quantiles(wall)[0], 1e6 * median(cpu)


TURNS = Turns([], 0, 1)


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
            TURNS.over(self.name)
            TURNS.begin(self.name)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        TURNS.over(self.name)


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
                "turns": {"target": f"{ours}.TakesTurns", "params": {"name": "lun"}},
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
    TURNS.begin("raw")
    parameters, position = weights(tensors), session.model.position
    module = nn.ModuleDict({"weights": parameters})
    optimizer = torch.optim.AdamW(parameters.parameters(), lr=1e-6, fused=True)
    ema, batches = LitEma(module, update_every=10), iter(session.data.train_dataloader())
    shown = monotonic()
    with (folder / "raw.jsonl").open("w") as told, tqdm(file=sys.stdout, bar_format="{desc}") as bar:
        for step in range(1, TURNS.total + 1):
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
                TURNS.over("raw")
                if step < TURNS.total:
                    TURNS.begin("raw")


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
    trainer = Trainer(
        **none, accelerator="cpu", max_steps=TURNS.total, gradient_clip_val=1.0, callbacks=[TakesTurns("lightning")]
    )
    trainer.fit(Bare(tensors), session.data.train_dataloader())


@contextlib.contextmanager
def to_nowhere() -> Iterator[None]:
    """Lines of progress go nowhere, as a terminal would show them."""
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        lun.callbacks.progress._terminal = lambda: True
        yield


def taken(tensors: int, turns: int, steps: int) -> dict[str, tuple[float, float]]:
    """(wall, CPU) of each with one number of parameter tensors, us a step."""
    global TURNS
    sys.modules[Path(__file__).stem].TURNS = TURNS = Turns(["raw", "lightning", "lun"], turns, steps)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        words = ["--base", str(config(folder, tensors, TURNS.total)), "--allow", Path(__file__).stem]
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
    return {name: TURNS.row(name) for name in TURNS.names}


def measure(numbers: list[int], turns: int, steps: int) -> list[Row]:
    """The raw loop, and what the others take over it, for each number of parameter tensors."""
    rows = []
    with to_nowhere():
        for tensors in numbers:
            (wall, cpu), *others = taken(tensors, turns, steps).values()
            rows.append(Row(f"{tensors} tensors: raw loop", wall, "wall us", {"CPU us": cpu}))
            for name, (own, spent) in zip(("bare Lightning", "lun"), others, strict=True):
                rows.append(Row(f"{tensors} tensors: {name}", own - wall, "wall us", {"CPU us": spent - cpu}))
    return rows


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--turns", type=int, default=60)
    asked.add_argument("--steps", type=int, default=40)
    asked.add_argument("--tensors", type=int, nargs="+", default=[8, 212])
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    warnings.simplefilter("ignore")
    ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)
    torch.set_num_threads(1)
    present("overhead", measure(told.tensors, told.turns, told.steps), told.json)


if __name__ == "__main__":
    from step_overhead import main as as_a_module  # the program finds its classes by the name of this module

    as_a_module()
