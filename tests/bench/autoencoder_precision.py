"""The autoencoder's training in 32, bf16-mixed and 16-mixed, side by side; run it, see `--help`.

The whole program, discriminator included, from the same noise on the demo's pictures: what differs is the precision.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

PRECISIONS = ("32-true", "bf16-mixed", "16-mixed")
Curve = dict[int, dict[str, float]]


def train(precision: str, steps: int, logs: Path) -> Curve:
    """{step: what was logged of it}."""
    from lun.trainer import run

    settings = {
        "lightning.trainer.precision": precision,
        "lightning.trainer.max_steps": steps,
        "data.params.train.params.size": 16,
        "data.params.batch_size": 8,
        "model.params.lossconfig.params.disc_start": steps // 2,
    }
    words = ["--base", str(ROOT / "tests/fixtures/tiny-autoencoder.yaml"), "--logdir", str(logs), "-n", precision]
    words += ["-t", "--data_root", str(ROOT / "configs/demo/data/train")]
    if code := run([*words, *(f"{key}={value}" for key, value in settings.items())]):
        sys.exit(code)
    lines = (logs / "latest/metrics.jsonl").read_text().splitlines()
    return {row["step"] + 1: row for row in map(json.loads, lines) if "aeloss" in row}


def table(curves: dict[str, Curve], steps: Sequence[int]) -> str:
    """Mean absolute error of the pictures of a step, and what float16's scaler skipped by then."""
    lines = ["| step | " + " | ".join(curves) + " | skipped in 16-mixed |", "|---|" + "---|" * (len(curves) + 1)]
    for step in steps:
        errors = " | ".join(f"{curve[step]['train/rec_loss']:.4f}" for curve in curves.values())
        lines.append(f"| {step} | {errors} | {curves['16-mixed'][step]['train/skipped_steps']:.0f} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as logs:
        curves = {precision: train(precision, args.steps, Path(logs) / precision) for precision in PRECISIONS}
    shown = sorted({1, *range(args.steps // 6, args.steps + 1, args.steps // 6)})
    print("\n" + table(curves, shown))


if __name__ == "__main__":
    main()
