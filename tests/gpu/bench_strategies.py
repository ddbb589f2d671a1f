"""Memory and speed of each strategy and precision on this machine's GPUs, full fine-tune of SD 1.x with random weights.

    python tests/gpu/bench_strategies.py                    # prints a Markdown table
    python tests/gpu/bench_strategies.py --devices 2 --only deepspeed

Each row is a run of the program in a process of its own. DeepSpeed's overhead against the plain row of the same
precision must stay below 1.5 (it was 3 to 4 in 2022); the last line says so, and the exit code is 1 if it does not.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
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
LIMIT = 1.5


def words(data: Path, logs: Path, devices: int, batch: int, steps: int) -> list[str]:
    """What all cases share: no files that cannot be drawn at random, nothing beside training."""
    parts = ("unet_config", "first_stage_config", "cond_stage_config")
    scratch = [f"model.params.{part}.params.from_scratch=true" for part in parts]
    quiet = ["image_logger", "monitored_checkpoint", "periodic_checkpoint", "periodic_checkpoint_overwrite"]
    return [
        *("--base", "configs/training-lightning.yaml", "configs/training-txt2img.yaml"),
        *("--data_root", str(data), "--logdir", str(logs), "--accelerator", "gpu", "-t"),
        *scratch,
        *(f"lightning.callbacks.{name}=null" for name in quiet),
        *("model.params.use_ema=false", "model.params.scheduler_config=null", f"data.params.batch_size={batch}"),
        *(f"lightning.trainer.devices={devices}", f"lightning.trainer.max_steps={steps}"),
        f"lightning.trainer.log_every_n_steps={steps // 2}",
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


def measure(case: Sequence[str], shared: Sequence[str], logs: Path) -> dict[str, float] | str:
    """The last numbers that a run logged, or its last line where it failed."""
    done = subprocess.run([sys.executable, "main.py", *shared, *case], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip() or done.stdout.strip()).splitlines()[-1][:120]
    lines = (logs / "latest" / "metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "perf/step_ms" in row]
    return {name: float(rows[-1][name]) for name in ("perf/step_ms", "mem/gpu_peak_gib", "mem/rss_gib")}


def table(found: dict[str, dict[str, float] | str]) -> Iterator[str]:
    yield "| strategy, precision | ms a step | GiB on the GPU | GiB of main memory | against plain |"
    yield "|---|---|---|---|---|"
    for name, row in found.items():
        if isinstance(row, str):
            yield f"| {name} | {row} | | | |"
            continue
        ratio = overhead(name, found)
        numbers = (row["perf/step_ms"], row["mem/gpu_peak_gib"], row["mem/rss_gib"])
        cells = "{:.0f} | {:.1f} | {:.1f}".format(*numbers)
        yield f"| {name} | {cells} | {'' if ratio is None else f'{ratio:.2f}'} |"


def overhead(name: str, found: dict[str, dict[str, float] | str]) -> float | None:
    """Time of a step against the plain row of the same precision."""
    own, plain = found[name], found.get(f"plain {name.split()[-1]}")
    if name.startswith("plain") or isinstance(own, str) or not isinstance(plain, dict):
        return None
    return own["perf/step_ms"] / plain["perf/step_ms"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--only", default="", help="a part of the names of the cases to run, beside the plain ones")
    given = parser.parse_args()
    found: dict[str, dict[str, float] | str] = {}
    with tempfile.TemporaryDirectory() as folder:
        data, logs = make_data(Path(folder) / "data"), Path(folder) / "logs"
        for name, case in CASES.items():
            if given.only in name or name.startswith("plain"):
                shared = words(data, logs / name.replace(" ", "-"), given.devices, given.batch, given.steps)
                found[name] = measure(case, shared, logs / name.replace(" ", "-"))
                print(f"{name}: {found[name]}", file=sys.stderr)
    print("\n".join(table(found)))
    ratios = [overhead(name, found) for name in found if name.startswith("deepspeed") and "offload" not in name]
    worst = max((ratio for ratio in ratios if ratio is not None), default=0.0)
    print(f"\nDeepSpeed without offload takes at most {worst:.2f} times as long as without it (limit {LIMIT}).")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
