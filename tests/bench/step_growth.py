"""What a training step costs as the work grows: batch, resolution and parameters, beside diffusers' own script.

    python tests/bench/step_growth.py [--turns 2] [--steps 1] [--json FILE]

As in step.py, the script with its best flag (`--foreach_ema`); the middle is a UNet of 34.3 million parameters (width
64), 128 pixels, batch 2.
"""

import without_deepspeed  # isort: skip  # noqa: F401

import argparse
import os
import tempfile
from pathlib import Path

import torch
from measurements import FOREACH
from report import Row, present
from small_model import Recipe
from step import OURS, Field, beside

MIDDLE = Recipe(batch=2)
POINTS = {
    **{f"batch {batch}": MIDDLE._replace(batch=batch) for batch in (1, 2, 4, 8)},
    **{f"{size} pixels": MIDDLE._replace(size=size) for size in (64, 192, 256)},
    "width 32: 8.6 M": MIDDLE._replace(width=32),
    "width 96: 77.1 M": MIDDLE._replace(width=96),
}


def measure(points: dict[str, Recipe], turns: int, steps: int) -> list[Row]:
    """A row for each recipe: CPU seconds of the program's step, and over the script's."""
    rows = []
    for name, recipe in points.items():
        with tempfile.TemporaryDirectory() as folder:
            field = Field(Path(folder), recipe)
            taken = beside(field.words, {FOREACH: field.script(foreach_ema=True).begin().step}, turns, steps)
        ours = taken[OURS]
        rows.append(
            Row(name, ours, "CPU s", {"an image": ours / recipe.batch, f"over {FOREACH}": ours / taken[FOREACH]})
        )
    return rows


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--turns", type=int, default=2)
    asked.add_argument("--steps", type=int, default=1)
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    os.environ["LUN_THREADS"] = "1"
    torch.set_num_threads(1)
    present("step_growth", measure(POINTS, told.turns, told.steps), told.json)


if __name__ == "__main__":
    main()
