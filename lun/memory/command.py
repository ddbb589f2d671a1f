"""`python -m lun.memory --base YAML ...`: what a run will take of a card's memory, without having one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lun.cli.borrowed_words import borrowed_words
from lun.cli.user_code import admit_user_code
from lun.console import log as console
from lun.console.ending import reported
from lun.run.data_roots import NOWHERE
from lun.run.settings import read_settings

if TYPE_CHECKING:
    from lun.memory.forecast import Forecast

GIB = 2**30
COMMAND = "python -m lun.memory"
USAGE = """\
usage: python -m lun.memory --base YAML ... [settings and Trainer arguments as of main.py]
                            [--allow MODULE] [--family NAME|MODULE.NAME] [-d]

  The peak memory of a run on one card, from a training step on tensors that have shapes but no memory: seconds on a
  CPU, with no card, no weights and no pictures. The driver's context, workspaces of libraries and what the allocator
  rounds up come on top: leave about a gibibyte. With --accelerator cpu it is the memory of a run on the CPU.

  python -m lun.memory --base sd15 12gb
  python -m lun.memory --base sd15 bf16 data.params.batch_size=8
"""


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says (`sys.argv` by default) and return the exit code; nothing is raised."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _start(words), [COMMAND, *words])


def _start(words: list[str]) -> int:
    arguments = borrowed_words(words, COMMAND, USAGE, "--base sd15 12gb")
    if arguments is None:
        return 0
    console.configure(None)
    admit_user_code(arguments.allow, families=arguments.family)
    settings = read_settings(replace(arguments, data_root=(NOWHERE,)), None)
    settings.say_notes()
    from lun.memory.forecast import forecast  # torch, which takes seconds
    from lun.memory.named_callbacks import uncounted

    print("\n".join(lines(forecast(settings.config))))
    if besides := uncounted(settings.config):
        print(f"besides  {besides}")
    return 0


def lines(forecast: Forecast) -> list[str]:
    """The forecast in words."""
    fixed = {"weights": forecast.weights, "gradients": forecast.gradients, "optimizer": forecast.optimizer}
    parts = {"step": forecast.step, "optimizer's update": forecast.update, "samples": forecast.samples}
    parts |= {"filling caches": forecast.caches} if forecast.caches else {}
    return [
        f"peak     {gib(forecast.peak)} GiB {'in main memory' if forecast.on_cpu else 'on the card'}",
        "stays    " + " + ".join(f"{name} {gib(size)}" for name, size in fixed.items()),
        "peaks    " + ", ".join(f"{name} {gib(size)}" for name, size in parts.items()),
        f"average  {gib(forecast.average)} GiB in main memory",
    ]


def gib(size: int) -> str:
    return f"{size / GIB:.1f}"
