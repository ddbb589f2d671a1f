"""The program and others, a few steps of each in turn in one process, so that all see the same machine.

CPU time of the whole process is taken, since others may use the machine as well; nobody works but whose turn it is.
"""

from collections.abc import Callable, Mapping
from statistics import median
from time import process_time
from typing import Any, ClassVar
from unittest.mock import patch

import program  # noqa: F401  # puts what is measured on the path
from lightning.pytorch import Callback

from lun.trainer import run

OURS = "lun"
Act = Callable[[], object]


class Race:
    """What each took: CPU seconds a step, by turn; the first turn, in which caches warm, is left out."""

    now: ClassVar["Race"]

    def __init__(self, others: Mapping[str, Act], turns: int, steps: int) -> None:
        self.others, self.turns, self.steps = others, turns, steps
        self.taken: dict[str, list[float]] = {name: [] for name in (*others, OURS)}
        self._began = 0.0

    def begin(self) -> None:
        self._began = process_time()

    def over(self, name: str) -> None:
        self.taken[name].append((process_time() - self._began) / self.steps)

    def let_others(self) -> None:
        """Each of the others takes its turn."""
        for name, step in self.others.items():
            self.begin()
            for _ in range(self.steps):
                step()
            self.over(name)

    def medians(self) -> dict[str, float]:
        return {name: median(times[1:]) for name, times in self.taken.items()}


class TakesTurns(Callback):
    """The program's part: stands between two of its steps."""

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        race = Race.now
        if batch_idx and batch_idx % race.steps == 0:
            race.over(OURS)
            race.let_others()
        if batch_idx == race.steps * (race.turns + 1):  # nobody waits for one more step
            trainer.should_stop = True
            raise StopIteration
        if batch_idx % race.steps == 0:
            race.begin()


def beside(words: list[str], others: Mapping[str, Act], turns: int, steps: int) -> dict[str, float]:
    """CPU seconds a step of each, medians: of the program, started with `words`, under the name `lun`.

    What it would save at its end is not written, which is no part of a step.
    Raises RuntimeError where the program ends otherwise than it should.
    """
    Race.now = Race(others, turns, steps)
    own = ["--allow", "race", "-t", "lightning.callbacks.turns={target: race.TakesTurns}"]
    with patch("lun.callbacks.final.write_checkpoint", return_value=None):
        code = run([*words, *own, f"lightning.trainer.max_steps={steps * (turns + 1) + 1}"])
    if code:
        raise RuntimeError(f"{words} ended with {code}")
    return Race.now.medians()
