"""CPU seconds of a training step: the program beside diffusers' own text-to-image script, same model, same pictures.

    python tests/bench/step.py [--turns 5] [--steps 2] [--compiled] [--json FILE]

A UNet of 34.3 million parameters, 128 pixels, batch 4, latents encoded online, fp32, AdamW, clipping, an average of the
weights after every step, one thread. `reference.py` says what the script does. Compiled rows are of the steps alone,
not of the minutes that compiling takes. With `latent-cache`, which the script has not, pictures and captions were
encoded before.
"""

import without_deepspeed  # isort: skip  # noqa: F401

import argparse
import os
import tempfile
from pathlib import Path
from unittest.mock import patch

import torch
import yaml
from measurements import CACHED, COMPILED, FOREACH, INDUCTOR, SCRIPT
from race import OURS, beside
from reference import Script
from report import Row, present, times_of
from small_model import Recipe, config, write_model, write_pictures


class Field:
    """A folder with the model, the pictures and the configuration of one recipe."""

    def __init__(self, folder: Path, recipe: Recipe) -> None:
        self.recipe = recipe
        self.model = write_model(folder / "model", recipe)
        self.data = write_pictures(folder / "data", recipe.size)
        self.file = folder / "run.yaml"
        self.file.write_text(yaml.safe_dump(config(recipe, self.model, self.data)))
        self.words = ["--base", str(self.file), "--logdir", str(folder / "logs")]

    def script(self, foreach_ema: bool = False) -> Script:
        return Script(self.model, self.data, self.recipe.size, self.recipe.batch, foreach_ema)


def measure(recipe: Recipe, turns: int, steps: int) -> list[Row]:
    """A row for each contestant, over the script as it is and over its best flag."""
    with tempfile.TemporaryDirectory() as folder:
        field = Field(Path(folder), recipe)
        plain = {SCRIPT: field.script().begin().step, FOREACH: field.script(foreach_ema=True).begin().step}
        taken = beside(field.words, plain, turns, steps)
        best = {FOREACH: plain[FOREACH]}
        with patch.dict(os.environ, LUN_CACHE=f"{folder}/cache"):
            taken |= over(taken, CACHED, beside([*field.words, "--base", "latent-cache"], best, turns, steps))
    return times_of(taken, "CPU s", SCRIPT, FOREACH)


def measure_compiled(recipe: Recipe, turns: int, steps: int) -> list[Row]:
    """The program's compiled blocks, over the script with its best flag and over the script compiled as well."""
    with tempfile.TemporaryDirectory() as folder:
        field = Field(Path(folder), recipe)
        plain = {FOREACH: field.script(foreach_ema=True).begin().step}
        plain[INDUCTOR] = field.script(foreach_ema=True).begin(compiled=True).step
        taken = beside([*field.words, "--base", "compile"], plain, turns, steps)
    return times_of({COMPILED if who == OURS else who: taken[who] for who in taken}, "CPU s", FOREACH, INDUCTOR)


def over(taken: dict[str, float], name: str, further: dict[str, float]) -> dict[str, float]:
    """A further run, in which the program goes by `name`, as if it were part of that of `taken`; both had FOREACH."""
    scale = taken[FOREACH] / further.pop(FOREACH)
    return {name if who == OURS else who: scale * seconds for who, seconds in further.items()}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--turns", type=int, default=5)
    asked.add_argument("--steps", type=int, default=2)
    asked.add_argument("--compiled", action="store_true", help="race the compiled step")
    asked.add_argument("--json", type=Path)
    told = asked.parse_args()
    os.environ["LUN_THREADS"] = "1"
    torch.set_num_threads(1)
    name, race = ("compiled_step", measure_compiled) if told.compiled else ("step", measure)
    present(name, race(Recipe(), told.turns, told.steps), told.json)


if __name__ == "__main__":
    main()
