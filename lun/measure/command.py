"""The command: read samples and data once, log the numbers, and show the samples that are nearest to the data."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldm.errors import Fault
from ldm.shell import quoted
from lun.cli.command_parser import CommandParser
from lun.cli.recipe_arguments import add_recipe_arguments, of_given_folder, recipe_of, recipe_split
from lun.cli.user_code import admit_user_code
from lun.console import log as console
from lun.console.ending import reported
from lun.data.index.missing_folder import require_folder
from lun.measure.arguments import add_measures, require_most

if TYPE_CHECKING:
    from lun.measure.measuring import MeasuredSamples

log = logging.getLogger(__name__)

COMMAND = "python -m lun.measure"
_ABOUT = """how well samples fit their prompts, how far they are from the data, and which come close to copying it

  --clip FOLDER      CLIP score of samples whose prompts are known; CMMD from the data (openai/clip-vit-large-patch14)
  --dino FOLDER      Frechet distance from the data in DINO's features (facebook/dinov2-large), nearest pictures
  --features FOLDER  the same in those of any image encoder of transformers; it is FID with Inception's alone

encoders are folders on this machine; nothing is fetched. Without one, or without data, its numbers are left out"""
_EXAMPLES = """examples
  python -m lun.measure logs/samples/NAME DIR --clip models/clip --dino models/dino
  python -m lun.measure SAMPLES --base my.yaml --split validation --dino models/dino -o measured"""


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _start(_parsed(words)), [COMMAND, *words])


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog=COMMAND, description=_ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("samples", metavar="SAMPLES", help="a folder of pictures, such as lun.sample writes")
    add_recipe_arguments(parser)
    add_measures(parser)
    parser.add_argument("--device", help="cpu, cuda, cuda:1, mps (an accelerator if there is one)")
    parser.add_argument("-o", "--output", metavar="DIR", help="a new folder: measures.json, nearest.png")
    return parser.parse_args(words)


def _start(asked: argparse.Namespace) -> int:
    with of_given_folder(asked, f"{COMMAND} {quoted(asked.samples)}"):
        return _measure(asked)


def _measure(asked: argparse.Namespace) -> int:
    console.configure(None)
    admit_user_code(asked.allow)
    recipe = _recipe(asked)
    folder = _folder(asked.output)
    from lun.measure.sampled_folder import sampled_files

    files = sampled_files(Path(asked.samples))
    prompted = all(one.prompt is not None for one in files)
    if recipe is None and asked.clip and not prompted:
        missing = next(one.path for one in files if one.prompt is None)
        why = f"nothing holds the prompt of {missing}, and there is no data to compare with"
        fix = f"{missing.with_suffix('.txt').name} beside it, or DIR"
        raise Fault("CLI03", "--clip has no effect", where="--clip", why=why, fix=fix)
    # torch and transformers, which take seconds; whatever is wrong with the words alone was reported before
    from lun.features.scoring import Encoders
    from lun.measure.measuring import measured

    encoders = Encoders.load(asked.clip, asked.dino, asked.features, asked.device)
    found = measured(files, encoders, recipe, recipe_split(asked), asked.most)
    _log_numbers(found, prompted or not asked.clip)
    if folder is not None:
        _write(found, folder)
    return 0


def _recipe(asked: argparse.Namespace) -> Mapping[str, Any] | None:
    """The data to compare with. Raises `Fault` CLI03 where there is nothing to measure."""
    if not (asked.clip or asked.dino or asked.features):
        raise Fault("CLI03", "no encoder is given to measure with", fix="--clip FOLDER, --dino FOLDER, or both")
    require_most(asked.most)
    if asked.folder is not None or asked.base:
        recipe = recipe_of(asked, f"{COMMAND} {quoted(asked.samples)}", "compare with")
        require_folder(recipe, recipe_split(asked))
        return recipe
    if idle := [f"--{name}" for name in ("dino", "features") if getattr(asked, name)]:
        what = f"{' and '.join(idle)} compares samples with data, and none is given"
        raise Fault("CLI03", what, where=idle[0], fix=f"{COMMAND} {quoted(asked.samples)} DIR")
    return None


def _folder(output: str | None) -> Path | None:
    folder = None if output is None else Path(output)
    if folder is not None and (folder.is_file() or (folder.is_dir() and any(folder.iterdir()))):
        raise Fault("CLI04", f"{folder} is there already", where="-o", fix="name a new folder, or an empty one")
    return folder


def _log_numbers(found: MeasuredSamples, prompted: bool) -> None:
    against = f", {found.compared:,} pictures of the data" if found.compared else ""
    log.info("samples  %s%s", f"{len(found.files):,}", against)
    if not prompted:
        log.info("note: no CLIP score: not every sample has its prompt, by a .txt beside it or in itself")
    for name, number in found.numbers.items():
        log.info("%-16s %.5g", name, number)
    for pair in found.pairs[:5]:
        log.info("nearest  %.3f  %s  %s", pair.cosine, pair.sample.name, pair.picture)


def _write(found: MeasuredSamples, folder: Path) -> None:
    from ldm.files.replacing import replace_text
    from lun.previews.grid import write
    from lun.run_dir.claim import writing_into

    pairs = [{"cosine": one.cosine, "sample": str(one.sample), "picture": one.picture} for one in found.pairs]
    record = {"samples": len(found.files), "pictures": found.compared, "numbers": found.numbers, "nearest": pairs}
    with writing_into(folder, "-o"):
        replace_text(folder / "measures.json", json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        if found.sheet is not None:
            write(found.sheet, folder / "nearest.png")
    log.info("wrote    %s", folder)
