"""`--new`: writes one commented configuration that trains on a person's own pictures, and says how to go on."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ldm.errors import Fault
from ldm.files.replacing import replace_text
from ldm.shell import quoted
from lun.cli.arguments import Arguments
from lun.config.commented_yaml import Comments, written
from lun.config.reading.layers import with_value
from lun.config.reading.load_layers import COMMAND_LINE
from lun.config.reading.yaml_tree import as_node, parse_value
from lun.data.building import build_dataset
from lun.data.dataset_protocol import DatasetAccess
from lun.memory.fit import BATCH, OPTIMIZER, fitted, get
from lun.new.questions import ACCELERATOR, LENGTH, answered
from lun.plan.fixed_memory import GIB
from lun.plan.memory_room import Room
from lun.program import as_started
from lun.run.settings import read_settings
from lun.strategies.execution import device_of

log = logging.getLogger(__name__)

NAME = "mine"
PRECISION = "lightning.trainer.precision"
FULL = (None, 32, "32", "32-true")
UNLIKE = 0.1
"""Share of pictures that are no squares from which on several shapes are read."""
SQUARE = 1.1
"""Ratio of sides up to which a picture counts as a square."""
COMMENTS: Mapping[str, str] = {
    LENGTH[0]: "steps; to train longer: a larger number, and --resume -t",
    LENGTH[1]: "times through all pictures",
    ACCELERATOR: "delete this line to train on a card",
    BATCH: "images at a time",
    "lightning.trainer.accumulate_grad_batches": "times so many make a step",
    f"{OPTIMIZER}.target": "small states, so that it fits",
    "model.params.ckpt_path": "the weights to start from",
    "data.params.train.params.data_root": "the pictures; python -m lun.inspect shows them as training sees them",
}


def write_first_config(arguments: Arguments) -> Path:
    """Ask what the command line does not say, look at the pictures, and write `NAME.yaml`.

    Raises `Fault` CLI03 for what is missing where nobody can be asked, CLI05 where the file is there already, those of
    the pictures, and DEV02 where nothing fits.
    """
    file = Path(f"{arguments.name or NAME}.yaml")
    if file.exists():
        raise Fault("CLI05", f"{file} is there already", where="--name", fix="-n another")
    arguments = one_length(answered(arguments, _card(), _terminal()))
    dataset = build_dataset({"target": "lun.data.local.Local", "params": {"data_root": _only_root(arguments)}}, "train")
    chosen = with_overlays(arguments, np.asarray(DatasetAccess(dataset).sizes()))
    if chosen.fit is not None:
        chosen = fitted(chosen, read_settings(chosen, None))
    read_settings(chosen, None)  # whatever is wrong is reported before anything is written
    replace_text(file, as_text(chosen, len(dataset), file))
    log.info("wrote    %s", file)
    return file


def one_length(arguments: Arguments) -> Arguments:
    """With steps or epochs alone, as was said: of both the shorter would hold, and presets say one."""
    said = [path for path in LENGTH if any(word.startswith(f"{path}=") for word in arguments.overrides)]
    other = [f"{path}=-1" for path in LENGTH if said and path not in said]
    return replace(arguments, overrides=(*arguments.overrides, *other))


def with_overlays(arguments: Arguments, sizes: np.ndarray) -> Arguments:
    """With bfloat16 where it computes on a card and nothing is said, and several shapes for such pictures.

    sizes  (n, 2) width and height of the pictures
    """
    config = read_settings(arguments, None).config
    added = []
    if get(config, ACCELERATOR) != "cpu" and get(config, PRECISION) in FULL:
        added.append("bf16")
    unlike = float(np.mean(sizes.max(axis=1) > SQUARE * np.maximum(sizes.min(axis=1), 1)))
    if unlike >= UNLIKE and get(config, "data.params.buckets") is None:
        added.append("buckets")
    return replace(arguments, base=(*arguments.base, *added))


def as_text(arguments: Arguments, count: int, file: Path) -> str:
    """The configuration that the command line comes to; `count` pictures were found."""
    root = "data.params.train.params.data_root"
    said: dict[str, Any] = {root: str(Path(_only_root(arguments)).absolute())}
    if arguments.init_from:
        said = {"model.params.ckpt_path": arguments.init_from, **said}
    for path, _, text in (word.partition("=") for word in arguments.overrides):
        said[path] = parse_value(text, COMMAND_LINE).plain()
    tree = as_node({"extends": list(arguments.base)}, COMMAND_LINE)
    beside: dict[tuple[str, ...], str] = {("extends",): "presets: python main.py --list-presets; later ones win"}
    for path, value in said.items():
        keys = tuple(path.split("."))
        tree = with_value(tree, keys, as_node(value, COMMAND_LINE))
        beside[keys] = "the line beside it says how long" if value == -1 else COMMENTS.get(path, "")
    head = [
        f"{', '.join(arguments.base)} on {count:,} images" + (f", for {arguments.fit:g} GiB" if arguments.fit else ""),
        as_started(f"plan: python main.py --base {quoted(str(file))}        train: the same with -t"),
        "Every setting: configs/KEYS.md; what all of it comes to: --print-config. Without bfloat16: fp16 for bf16.",
    ]
    return written(tree.plain(), Comments(beside=beside), head)


def _only_root(arguments: Arguments) -> str:
    """Raises `Fault` CLI03 for several folders, and for settings that a new file cannot hold."""
    odd = [word for word in arguments.overrides if word.startswith("~") or "[" in word.partition("=")[0]]
    if odd or len(arguments.data_root) != 1:
        what = f"--new does not write {quoted(odd[0])}" if odd else "--new takes one folder of pictures"
        raise Fault("CLI03", what, fix="write it into the file afterwards")
    return arguments.data_root[0]


def _card() -> float | None:
    """GiB of the card of this machine."""
    kind = device_of({})
    room = None if kind == "cpu" else Room.found(kind)
    return None if room is None else room.total / GIB


def _terminal() -> Callable[[str], str] | None:
    return input if sys.stdin.isatty() and sys.stdout.isatty() else None
