"""The command: open the model, list the pictures, draw them batch by batch, and a sheet of all of them at the end."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import Fault
from lun.console.ending import reported
from lun.previews.prompt_grammar import read_prompt
from lun.previews.prompts import prompts_of
from lun.run_dir.claim import claim_folder, writing_into
from lun.sample.arguments import NAME, parse
from lun.sample.drawing_request import DrawingRequest

if TYPE_CHECKING:
    from PIL import Image

    from lun.sample.opened_model import SampledModel
    from lun.sample.pictures import Picture

log = logging.getLogger(__name__)


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says (`sys.argv` by default) and return the exit code; nothing is raised."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _start(words), [NAME, *words])


def _start(words: list[str]) -> int:
    asked = parse(words or ["--help"])
    request = DrawingRequest.of(asked, [asked.source])
    prompts = [*(read_prompt(text, "the command line") for text in asked.prompts), *request.prompts]
    folder = _folder(asked)
    # Imports torch, which takes seconds; everything above has answered by then.
    from lun.sample.applied_embeddings import AppliedEmbedding, apply_embeddings
    from lun.sample.drawing import place
    from lun.sample.opened_model import open_source
    from lun.sample.pictures import list_pictures
    from lun.weights.applied_adapters import AppliedAdapter, apply_adapters

    source = open_source(asked.source, asked.ema, request.encoders, asked.tokenizer)
    adapters = [AppliedAdapter.parse(given) for given in asked.adapter]
    apply_adapters(source.model.trainable_networks(), adapters)
    embeddings = apply_embeddings(source.model, [AppliedEmbedding.parse(given) for given in asked.embedding])
    source = replace(source, adapters=tuple(map(str, adapters)), embeddings=embeddings)
    prompts = prompts or prompts_of(source.pictures.get("prompts", ()))
    if not prompts:
        fix = f'{NAME} {asked.source} "a photo of a cat"    or --prompts FILE'
        raise Fault("CLI03", "nothing says what to draw", why=f"{asked.source} has no prompts of its own", fix=fix)
    pictures = list_pictures(prompts, asked, source.pictures, source.model)
    place(source.model, asked.device, asked.dtype)
    if asked.output is None:
        folder = claim_folder(folder, "-o")
    with writing_into(folder, "-o"):
        _draw(source, pictures, asked, folder)
    return 0


def _folder(asked: argparse.Namespace) -> Path:
    """Where to write. Raises `Fault` CLI04 rather than mix with, or write over, what is there."""
    if asked.output is None:
        name = Path(asked.source).resolve().name
        return Path("logs") / "samples" / f"{datetime.now():%Y-%m-%dT%H-%M-%S}_{name}"
    folder = Path(asked.output)
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise Fault("CLI04", f"{folder} is there already", where="-o", fix="name a new folder, or an empty one")
    return folder


def _draw(source: SampledModel, pictures: Sequence[Picture], asked: argparse.Namespace, folder: Path) -> None:
    from lun.previews.grid import write
    from lun.sample.drawn_files import drawn_files
    from lun.sample.sheet import contact_sheet

    drawn: list[Image.Image] = []
    wanted = [(picture, folder / f"{number:04}-{picture.seed}.png") for number, picture in enumerate(pictures)]
    count = 0
    for images in drawn_files(source, wanted, asked.batch, asked.dtype):
        if asked.captions:
            for picture, path in wanted[count : count + len(images)]:
                path.with_suffix(".txt").write_text(f"{picture.prompt}\n", encoding="utf-8")
        else:
            drawn += images
        count += len(images)
        log.info("drew     %d of %d", count, len(pictures))
    if not asked.captions:  # where it would be read as one of the pictures
        write(contact_sheet(drawn, pictures), folder / "sheet.png")
    log.info("wrote    %s", folder)
