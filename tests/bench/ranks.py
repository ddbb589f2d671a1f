"""What strategies cost a step beside plain training, on CPU ranks of gloo: DeepSpeed, DDP, FSDP2.

    python tests/bench/ranks.py [--steps 6] [--json FILE]

One rank: DeepSpeed beside plain training. Two ranks: FSDP2 and DeepSpeed beside DDP. A UNet of 8.6 million parameters
(width 32), 64 pixels, batch 1 a rank, one thread each; CPU seconds of rank 0, medians of steps. On GPUs
`tests/gpu/bench_strategies.py` takes the place of this.
"""

import argparse
import os
import tempfile
from pathlib import Path

import yaml
from program import HERE, ROOT
from report import Row, present
from small_model import Recipe, config, write_model, write_pictures
from support.ranks import Ranks

ZERO = "lightning.trainer.strategy={target: lun.strategies.deepspeed.DeepSpeed, params: {stage: %d}}"
DDP = "lightning.trainer.strategy={target: lun.strategies.ddp.DDP}"
FSDP = "lightning.trainer.strategy={target: lun.strategies.fsdp.FSDP}"
CASES = {
    1: {"one rank: plain": [], "one rank: DeepSpeed 1": [ZERO % 1], "one rank: DeepSpeed 2": [ZERO % 2]},
    2: {"two ranks: DDP": [DDP], "two ranks: FSDP2": [FSDP], "two ranks: DeepSpeed 2": [ZERO % 2]},
}
SMALL = Recipe(width=32, size=64, batch=1, context=32)


def step_of(words: list[str], steps: int) -> float:
    """CPU seconds of a step of the program on this rank; a case of `Ranks`."""
    from race import OURS, beside

    return beside(words, {}, turns=steps, steps=1)[OURS]


def measure(recipe: Recipe, steps: int, folder: Path) -> list[Row]:
    """A row for each strategy, over the first of as many ranks."""
    model, data = write_model(folder / "model", recipe), write_pictures(folder / "data", recipe.size)
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(config(recipe, model, data)))
    path = os.pathsep.join(map(str, (HERE, HERE.parent, ROOT)))
    rows = []
    for world_size, cases in CASES.items():
        group = Ranks(folder / f"ranks-{world_size}", world_size, PYTHONPATH=path, LUN_CACHE=str(folder / "cache"))
        shared = ["--base", str(file), "--logdir", str(folder / f"logs-{world_size}")]
        shared.append(f"lightning.trainer.devices={world_size}")
        try:
            taken = {name: group(step_of, [*shared, *words], steps)[0] for name, words in cases.items()}
        finally:
            group.close()
        first = next(iter(taken.values()))
        rows += [Row(name, value, "CPU s", {"over the first": value / first}) for name, value in taken.items()]
    return rows


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--steps", type=int, default=6)
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        present("ranks", measure(SMALL, told.steps, Path(folder)), told.json)


if __name__ == "__main__":
    main()
