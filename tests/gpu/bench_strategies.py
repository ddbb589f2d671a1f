"""Memory and speed of each strategy and precision on this machine's GPUs, full fine-tune of SD 1.x with random weights.

    python tests/gpu/bench_strategies.py                    # prints a Markdown table
    python tests/gpu/bench_strategies.py --devices 2 --only deepspeed "fsdp bf16-true"
    python tests/gpu/bench_strategies.py --accelerator cpu --base tests/fixtures/tiny.yaml --steps 4   # a try

Each row is a run of the program in a process of its own, printed when it is done; one that fails says why in its row.
DeepSpeed's overhead against the plain row of the same precision must stay below 1.5 (it was 3 to 4 in 2022); the last
line says so, and the exit code is 1 if it does not.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from math import nan
from pathlib import Path

import numpy as np
import torch
from PIL import Image

ROOT = Path(__file__).parents[2]
ZERO = "lightning.trainer.strategy={target: lun.strategies.deepspeed.DeepSpeed, params: {stage: %d%s}}"
HALF = "lightning.trainer.precision={target: lun.strategies.precision.%s, params: {frozen_half: true}}"
FSDP = "lightning.trainer.strategy={target: lun.strategies.fsdp.FSDP}"
CASES = {
    "plain 32": ["lightning.trainer.precision=32"],
    "plain bf16-mixed": ["lightning.trainer.precision=bf16-mixed"],
    "plain bf16-mixed, frozen half": [HALF % "Bf16Mixed"],
    "plain bf16-mixed, frozen offloaded": [
        HALF % "Bf16Mixed",
        "lightning.callbacks.offload_frozen={target: lun.callbacks.OffloadFrozen}",
    ],
    "plain 16-mixed": ["lightning.trainer.precision=16-mixed"],
    "plain bf16-true": ["lightning.trainer.precision=bf16-true"],
    "fsdp bf16-mixed": ["lightning.trainer.precision=bf16-mixed", FSDP],
    "fsdp bf16-true": ["lightning.trainer.precision=bf16-true", FSDP],
    **{f"deepspeed {n} bf16-mixed": ["lightning.trainer.precision=bf16-mixed", ZERO % (n, "")] for n in (1, 2, 3)},
    "deepspeed 2 16-mixed": ["lightning.trainer.precision=16-mixed", ZERO % (2, "")],
    "deepspeed 2 offload": ["lightning.trainer.precision=bf16-mixed", ZERO % (2, ", offload_optimizer: true")],
    "deepspeed 3 offload": [
        "lightning.trainer.precision=bf16-mixed",
        ZERO % (3, ", offload_optimizer: true, offload_parameters: true"),
    ],
}
BASE = ("configs/training-lightning.yaml", "configs/training-txt2img.yaml")
COLUMNS = ("perf/step_ms", "mem/gpu_peak_gib", "mem/rss_gib")
LIMIT = 1.5
Row = dict[str, float]


def words(data: Path, logs: Path, given: argparse.Namespace) -> list[str]:
    """What all cases share: no files that cannot be drawn at random, nothing beside training."""
    parts = ("unet_config", "first_stage_config", "cond_stage_config")
    scratch = [f"model.params.{part}.params.from_scratch=true" for part in parts]
    quiet = ["image_logger", "monitored_checkpoint", "periodic_checkpoint", "periodic_checkpoint_overwrite"]
    return [
        *("--base", *given.base),
        *("--data_root", str(data), "--logdir", str(logs), "--accelerator", given.accelerator, "-t"),
        *scratch,
        *(f"lightning.callbacks.{name}=null" for name in quiet),
        *("model.params.ema_config=null", "model.params.use_ema=false", "model.params.scheduler_config=null"),
        *(f"data.params.batch_size={given.batch}", f"lightning.trainer.devices={given.devices}"),
        *(f"lightning.trainer.max_steps={given.steps}", f"lightning.trainer.log_every_n_steps={given.steps // 2}"),
    ]


def make_data(folder: Path, count: int = 16) -> Path:
    """Random pictures of 512 x 512 with captions."""
    numbers = np.random.default_rng(0)
    for i in range(count):
        for name in ("img", "txt"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        pixels = numbers.integers(0, 256, (512, 512, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "img" / f"{i}.png")
        (folder / "txt" / f"{i}.txt").write_text("noise")
    return folder


def measure(case: Sequence[str], shared: Sequence[str], logs: Path, limit: float) -> Row | str:
    """The last numbers that a run logged, or what it said where it failed: no memory, no DeepSpeed, no answer."""
    environment = {**os.environ, "LUN_CACHE": str(logs.parent / "cache")}
    line = [sys.executable, "main.py", *shared, *case]
    try:
        done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"not done after {limit:.0f} s"
    if done.returncode:
        return f"exit code {done.returncode}: {reason(done.stderr) or reason(done.stdout)}"
    lines = (logs / "latest" / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "perf/step_ms" in row]
    return {name: float(rows[-1].get(name, nan)) for name in COLUMNS} if rows else "nothing was logged of its speed"


def reason(told: str) -> str:
    """The line that names the error, else the last one."""
    lines = [line for line in told.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("error[") or "Error: " in line]
    return next(iter([*named, *lines[-1:]]), "").strip().replace("|", "/")[:160]


def cells(name: str, found: Mapping[str, Row | str]) -> str:
    """One row of the table."""
    row = found[name]
    if isinstance(row, str):
        return f"| {name} | {row} | | | |"
    ratio = overhead(name, found)
    numbers = "{:.0f} | {:.1f} | {:.1f}".format(*(row[column] for column in COLUMNS))
    return f"| {name} | {numbers} | {'' if ratio is None else f'{ratio:.2f}'} |"


def plain_of(name: str) -> str:
    """The row that a row is compared with: one device in the same precision, bf16-mixed where the name has none."""
    return next((f"plain {word}" for word in name.split() if f"plain {word}" in CASES), "plain bf16-mixed")


def overhead(name: str, found: Mapping[str, Row | str]) -> float | None:
    """Time of a step against the plain row of the same precision."""
    own, plain = found[name], found.get(plain_of(name))
    if name == plain_of(name) or isinstance(own, str) or not isinstance(plain, dict):
        return None
    return own["perf/step_ms"] / plain["perf/step_ms"]


def chosen(parts: Sequence[str]) -> list[str]:
    """The cases whose names contain one of `parts`, and those that they are compared with, in order."""
    wanted = {name for name in CASES if any(part in name for part in parts)} if parts else set(CASES)
    return [name for name in CASES if name in wanted | {plain_of(name) for name in wanted}]


def hardware(accelerator: str) -> str:
    """What the numbers were measured on."""
    cuda = accelerator == "gpu" and torch.cuda.is_available()
    device = (
        f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}" if cuda else "CPU: the numbers mean nothing"
    )
    zero = f"deepspeed {version('deepspeed')}" if find_spec("deepspeed") else "no deepspeed"
    return f"{device}, torch {torch.__version__}, {zero}"


def write(found: Mapping[str, Row | str], file: Path) -> None:
    """The rows that were measured, for the page of all measurements."""
    sys.path.insert(0, str(ROOT / "tests/bench"))
    import report

    rows = []
    for name, row in found.items():
        if not isinstance(row, str):
            ratio = overhead(name, found)
            beside = {"GiB on the GPU": row["mem/gpu_peak_gib"], "GiB of main memory": row["mem/rss_gib"]}
            beside |= {} if ratio is None else {"over plain": ratio}
            rows.append(report.Row(name, row["perf/step_ms"], "ms a step", beside))
    report.present("strategies", rows, file)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--only", nargs="+", default=(), help="parts of the names of the cases to run")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a case is given up")
    parser.add_argument("--base", nargs="+", default=BASE, help="other configs, to try the script out with a tiny one")
    parser.add_argument("--accelerator", default="gpu", help="cpu, likewise")
    parser.add_argument("--json", type=Path, help="write the rows there as well")
    given = parser.parse_args()
    found: dict[str, Row | str] = {}
    print(f"{hardware(given.accelerator)}; {given.devices} used, batch {given.batch} each, {given.steps} steps\n")
    print("| strategy, precision | ms a step | GiB on the GPU | GiB of main memory | against plain |")
    print("|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        data = make_data(Path(folder) / "data")
        for name in chosen(given.only):
            logs = Path(folder) / name.replace(" ", "-").replace(",", "")
            found[name] = measure(CASES[name], words(data, logs, given), logs, given.limit)
            print(cells(name, found), flush=True)
    if given.json:
        write(found, given.json)
    ratios = {n: overhead(n, found) for n in found if n.startswith("deepspeed") and "offload" not in n}
    measured = [ratio for ratio in ratios.values() if ratio is not None]
    if not measured:
        print("\nDeepSpeed's overhead was not measured.")
        return 1
    print(f"\nDeepSpeed without offload takes at most {max(measured):.2f} times as long as plain (limit {LIMIT}).")
    return int(max(measured) > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
