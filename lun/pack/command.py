"""The command: which folder, where to, and what a person reads of it."""

from __future__ import annotations

import argparse
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

if TYPE_CHECKING:
    from lun.data.packs.set_file import SetFacts

log = logging.getLogger(__name__)

COMMAND = "python -m lun.pack"
_ABOUT = """the pictures that a recipe selects, packed into few tar files (WebDataset) with an index, for
lun.data.packed.PackedSet; a pack that was killed goes on where it was when it is started again"""


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _start(_parsed(words)), [COMMAND, *words])


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(prog=COMMAND, description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_recipe_arguments(parser)
    parser.add_argument("-o", "--output", metavar="DIR", help="where the set goes: a folder, or s3://, gs://, az://")
    parser.add_argument("--shard-mb", type=float, default=256, metavar="N", help="bytes of a shard, in MiB (256)")
    parser.add_argument(
        "--order", default="hash", choices=("hash", "given"), help="mix the pictures by their names (hash), or do not"
    )
    parser.add_argument("--max-side", type=int, metavar="N", help="make the longer side of larger pictures N pixels")
    parser.add_argument("--append", action="store_true", help="add what the set in -o has not got, as further shards")
    parser.add_argument(
        "--index-only", action="store_true", help="write an index beside the tar files in DIR, which stay as they are"
    )
    return parser.parse_args(words)


def _start(asked: argparse.Namespace) -> int:
    with of_given_folder(asked, COMMAND):
        return _pack(asked)


def _pack(asked: argparse.Namespace) -> int:
    console.configure(None)
    admit_user_code(asked.allow)
    if asked.index_only:
        return _report(_indexed(asked), asked.folder)
    if asked.output is None:
        raise Fault("CLI03", "nothing says where the set goes", where="-o", fix="-o DIR")
    recipe = recipe_of(asked, COMMAND, "pack")
    require_folder(recipe, recipe_split(asked))
    from lun.data.packs.packing import PackSettings

    settings = PackSettings(int(asked.shard_mb * (1 << 20)), asked.order, asked.max_side)
    return _report(_packed(recipe, settings, asked), asked.output)


def _report(facts: SetFacts, out: str) -> int:
    log.info("packed   %s samples in %s shards: %s", f"{facts.samples:,}", f"{facts.shards:,}", out)
    log.info("train    target: lun.data.packed.PackedSet, params: {data_root: %s}", quoted(out))
    return 0


def _indexed(asked: argparse.Namespace) -> SetFacts:
    """The set of foreign tar files. Raises `Fault` CLI03 for what has no effect on them."""
    of_packing = {"-o": asked.output, "--base": asked.base, "--set": asked.set, "--max-side": asked.max_side}
    if given := [flag for flag, value in {**of_packing, "--append": asked.append}.items() if value]:
        what = f"{', '.join(given)} has no effect beside --index-only"
        raise Fault("CLI03", what, where="--index-only", why="the tar files of DIR stay where and as they are")
    if asked.folder is None or not Path(asked.folder).is_dir():
        what = f"--index-only takes a folder with tar files, not {asked.folder}"
        raise Fault("CLI03", what, where="DIR", fix=f"{COMMAND} DIR --index-only")
    from lun.data.packs.scanning import index_shards

    return index_shards(Path(asked.folder))


def _packed(recipe: Mapping[str, Any], settings: Any, asked: argparse.Namespace) -> SetFacts:
    from lun.data.building import build_dataset
    from lun.data.packs.destination import destination_of
    from lun.data.packs.packing import Packing

    dataset = build_dataset(recipe, recipe_split(asked))
    return Packing(dataset, destination_of(asked.output), settings, asked.append).run()
