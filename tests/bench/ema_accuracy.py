"""How far averages taken at intervals, or reconstructed from snapshots, are from the exact ones, on recorded training.

    python tests/bench/ema_accuracy.py --steps 1800 --schedule constant

Trains the demo while a sample of its weights is recorded after each step, then averages the record with `LitEma` every
step and at intervals. All errors are shares of the distance between the exact average and the last weights, at several
ends of training; the theory is of weights that drift, walk at random, or jitter around a place (docs/ema.md).
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn

from ldm.ema.lit_ema import LitEma
from ldm.ema.posthoc import PowerProfile, fit
from ldm.ema.profiles import PowerDecay, gamma_of_sigma_rel

DECAYS = (0.99, 0.995, 0.998)
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5)  # N (1 - decay)
WIDTHS = (0.05, 0.10, 0.20)
INTERVALS = (10, 50, 100)
WANTED = (0.03, 0.05, 0.075, 0.10, 0.15, 0.20, 0.25)
STORED = (((0.05, 0.10), 8), ((0.05, 0.10), 16), ((0.05, 0.10), 32), ((0.05, 0.10, 0.20), 8))
SCHEDULES = {
    "constant": {"target": "ldm.lr_scheduler.WarmupConstant", "params": {"warm_up_steps": 100}},
    "cosine": {"target": "ldm.lr_scheduler.WarmupCosine", "params": {"warm_up_steps": 100}},
}


class Recorder(Callback):
    """Writes `count` weights of the network that trains, drawn over all of them, after each optimizer step."""

    def __init__(self, file: str, count: int) -> None:
        self.file, self.count = Path(file), count
        self.rows: list[Tensor] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.weights = [p for p in pl_module.parameters() if p.requires_grad]
        sizes = [weight.numel() for weight in self.weights]
        drawn = torch.randperm(sum(sizes), generator=torch.Generator().manual_seed(0))[: self.count].sort().values
        starts = torch.tensor([0, *sizes]).cumsum(0)
        self.places = [drawn[(drawn >= a) & (drawn < b)] - a for a, b in pairwise(starts)]
        self.look()

    def on_train_batch_end(self, *args: Any) -> None:
        self.look()

    def look(self) -> None:
        parts = [w.detach().flatten()[places] for w, places in zip(self.weights, self.places, strict=True)]
        self.rows.append(torch.cat(parts))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        torch.save(torch.stack(self.rows), self.file)


def record(steps: int, schedule: str, count: int, file: Path) -> Tensor:
    """(steps + 1, count) weights of the demo's training, those before it first."""
    from lun.trainer import run

    with tempfile.TemporaryDirectory() as folder:
        config = {
            "model": {"params": {"scheduler_config": SCHEDULES[schedule]}},
            "lightning": {
                "trainer": {"max_steps": steps, "val_check_interval": steps},
                "callbacks": {
                    "image_logger": {"params": {"disabled": True}},
                    "recorder": {"target": "__main__.Recorder", "params": {"file": str(file), "count": count}},
                },
            },
        }
        overlay = Path(folder) / "record.yaml"
        overlay.write_text(json.dumps(config))
        bases = ["configs/training-lightning.yaml", "configs/demo/emoji.yaml", str(overlay)]
        code = run(["--base", *bases, "-t", "--logdir", folder, "--allow", "__main__"])
    if code:
        raise SystemExit(code)
    return torch.load(file)


def averages(record: Tensor, ends: Sequence[int], **settings: Any) -> dict[int, Tensor]:
    """{end: the average of the record up to there}, by `LitEma` with these settings."""
    parameter = nn.Parameter(record[0].clone())
    ema = LitEma({"w": parameter}, **settings)
    found = {}
    for step in range(1, max(ends) + 1):
        parameter.data.copy_(record[step])
        ema.update(step)
        if step in ends:
            found[step] = ema.averaged_state()["w"].clone()
    return found


def errors(record: Tensor, ends: Sequence[int], exact: dict[int, Tensor], **settings: Any) -> float:
    """The median over `ends` of the distance to the exact average, as a share of that to the last weights."""
    found = averages(record, ends, **settings)
    return median(float((found[end] - exact[end]).norm() / (exact[end] - record[end]).norm()) for end in ends)


def row(*cells: object) -> None:
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def intervals_of_constant_decay(record: Tensor) -> None:
    row("decay", "N", "N(1-d)", "error", "drift", "random walk", "jitter")
    row(*["---"] * 7)
    last = len(record) - 1
    for decay in DECAYS:
        for share in SHARES:
            every = round(share / (1 - decay))
            if every < 2:
                continue
            ends = sorted({(last - i * last // 20) // every * every for i in range(8)})
            exact = averages(record, ends, decay=decay, warmup=False, update_every=1)
            error = errors(record, ends, exact, decay=decay, warmup=False, update_every=every)
            theory = [share * (every - 1) / every / 2, share / 3**0.5, (share / 2) ** 0.5]
            row(decay, every, share, percent(error), *map(percent, theory))


def intervals_of_power_functions(record: Tensor) -> None:
    row("width", "N", "error", "(N / 2) (gamma + 2) / T")
    row(*["---"] * 4)
    last = len(record) - 1
    for width in WIDTHS:
        for every in INTERVALS:
            ends = [last // every * every]
            exact = averages(record, ends, profile=PowerDecay(width), update_every=1)
            error = errors(record, ends, exact, profile=PowerDecay(width), update_every=every)
            row(width, every, percent(error), percent(every / 2 * (gamma_of_sigma_rel(width) + 2) / ends[0]))


def reconstructions(record: Tensor) -> None:
    row("widths", "snapshots of each", *WANTED)
    row(*["---"] * (2 + len(WANTED)))
    last = len(record) - 1
    exact = {w: averages(record, [last], profile=PowerDecay(w), update_every=1)[last] for w in WANTED}
    for widths, count in STORED:
        times = [round(last * (i + 1) / count) for i in range(count)]
        kept = {w: averages(record, times, profile=PowerDecay(w), update_every=1) for w in widths}
        profiles = [PowerProfile(width, time) for width in widths for time in times]
        tensors = torch.stack([kept[width][time] for width in widths for time in times]).double()
        cells = []
        for wanted in WANTED:
            found = torch.tensor(fit(profiles, PowerProfile(wanted, last)).coefficients) @ tensors
            cells.append(percent(float((found - exact[wanted]).norm() / (exact[wanted] - record[last]).norm())))
        row(", ".join(map(str, widths)), count, *cells)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1800)
    parser.add_argument("--schedule", choices=SCHEDULES, default="constant")
    parser.add_argument("--count", type=int, default=20_000, help="weights in the sample")
    parser.add_argument("--record", type=Path, help="a file to keep the record in, or to take it from")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        file = args.record or Path(folder) / "record.pt"
        path = torch.load(file) if file.exists() else record(args.steps, args.schedule, args.count, file)
    print(f"\n{len(path) - 1} steps, {path.shape[1]} weights, learning rate: {args.schedule}\n")
    for table in (intervals_of_constant_decay, intervals_of_power_functions, reconstructions):
        table(path)
        print()


if __name__ == "__main__":
    main()
