"""The pictures of a comparison as files, named by what they were made of: what is there is not drawn again."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from PIL import Image

from ldm.families.whole_checkpoint import open_checkpoint
from ldm.files.digest import sha256
from lun.checkpoints.manifest import Manifest
from lun.compare.compared_columns import Column, Opening
from lun.posthoc_ema.snapshot_files import snapshot_files
from lun.previews.prompt_grammar import Prompt

FOLDER = "cells"
HOW = ("steps", "guidance_rescale", "guidance_low", "guidance_high", "scheduler", "size", "negative", "dtype", "device")
"""Options that decide how a picture is drawn, besides those of its column and its row."""


@dataclass(frozen=True)
class ComparedRow:
    """One prompt with one seed, drawn by every column."""

    prompt: Prompt
    seed: int


def rows_of(prompts: Sequence[Prompt], count: int, first: int) -> list[ComparedRow]:
    """`count` rows of each prompt, in the order and with the seeds of `lun.sample.pictures.list_pictures`."""
    copies = [(prompt, copy) for prompt in prompts for copy in range(count)]
    return [
        ComparedRow(prompt, prompt.settings["seed"] + copy if "seed" in prompt.settings else first + place)
        for place, (prompt, copy) in enumerate(copies)
    ]


class Cells:
    """The files of a comparison in `folder`/cells.

    asked   the command line; `shared` what the first run says of its own pictures
    """

    def __init__(self, folder: Path, asked: argparse.Namespace, shared: Mapping[str, Any]) -> None:
        self.folder = folder / FOLDER
        self._how = {
            **{name: getattr(asked, name) for name in HOW},
            "shared": {name: value for name, value in shared.items() if name != "prompts"},
            "encoders": [_file_facts(word.partition("=")[2]) for word in asked.text_encoder],
            "tokenizer": asked.tokenizer,
            "code": [asked.allow, asked.family],
            "program": version("lun"),
        }
        self._facts: dict[Opening, dict[str, Any]] = {}

    def path(self, column: Column, row: ComparedRow) -> Path:
        """Where the picture of a cell lies once it is drawn."""
        said = {"text": row.prompt.text, **row.prompt.settings, "seed": row.seed}
        facts = {**self._how, **self.facts(column.opening), "guidance": column.guidance, "row": said}
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
        return self.folder / f"{digest[:24]}.png"

    def facts(self, opening: Opening) -> dict[str, Any]:
        """Which weights an opening is of, by the hashes of their files."""
        if opening not in self._facts:
            self._facts[opening] = _facts(opening)
        return self._facts[opening]


def is_drawn(path: Path) -> bool:
    """Whether a whole picture lies there."""
    return picture_at(path) is not None


def picture_at(path: Path) -> Image.Image | None:
    """The picture of a cell; None where there is none, or half of one."""
    try:
        with Image.open(path) as picture:
            return picture.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None


def _facts(opening: Opening) -> dict[str, Any]:
    source, adapter = opening.source, opening.adapter
    config = source.run.resolved_config if source.run else None
    return {
        "sha256": _hash(source.given),
        "config": sha256(config) if config and config.is_file() else None,
        "averaged": opening.weights.averaged,
        "width": opening.weights.width,
        "snapshots": _snapshots(opening),
        "adapter": [sha256(adapter.path), adapter.strength] if adapter and adapter.path.is_file() else None,
        "strength": opening.strength,
    }


def _hash(given: str) -> str:
    """Of a checkpoint as its manifest has it, where its size is what was written; else of the file, which is read."""
    path = Path(given)
    manifest = Manifest.read(path) if path.is_file() else None
    if manifest is not None and manifest.size == path.stat().st_size:
        return manifest.sha256
    return open_checkpoint(given).sha256()


def _snapshots(opening: Opening) -> list[Any]:
    if opening.weights.width is None or opening.source.run is None:
        return [opening.source.step]
    _, files = snapshot_files(str(opening.source.run.path))
    return [opening.source.step, *(_file_facts(str(file)) for file in files)]


def _file_facts(name: str) -> list[Any]:
    path = Path(name)
    if not path.is_file():
        return [name]
    status = path.stat()
    return [name, status.st_size, status.st_mtime_ns]
