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
from lun.cli.user_code import admit_user_code
from lun.config.compat.upgrade import upgrade
from lun.config.data_recipes import LOCAL, inside, require_folder_setting, require_recipe
from lun.config.reading.load_layers import load_layers
from lun.config.several_sets import names_sets
from lun.console import log as console
from lun.console.ending import reported

if TYPE_CHECKING:
    from lun.data.packs.set_file import SetFacts

log = logging.getLogger(__name__)

_ABOUT = """the pictures that a recipe selects, packed into few tar files (WebDataset) with an index, for
lun.data.packed.PackedSet; a pack that was killed goes on where it was when it is started again"""


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _pack(_parsed(words)), ["python -m lun.pack", *words])


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="python -m lun.pack", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="DIR", nargs="?", help="the pictures; without it, those of the recipe")
    parser.add_argument("-o", "--output", metavar="DIR", help="where the set goes")
    parser.add_argument("-b", "--base", nargs="+", default=[], metavar="YAML", help="configs with the recipe")
    parser.add_argument("--set", metavar="NAME", help="which of several sets")
    parser.add_argument("--split", default="train", choices=("train", "validation", "test", "predict"))
    parser.add_argument("--allow", metavar="MODULE", action="append", default=[], help="code of yours")
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


def _pack(asked: argparse.Namespace) -> int:
    console.configure(None)
    admit_user_code(asked.allow)
    if asked.index_only:
        return _told(_indexed(asked), asked.folder)
    if asked.output is None:
        raise Fault("CLI03", "nothing says where the set goes", where="-o", fix="-o DIR")
    recipe = _recipe(asked)
    from lun.data.packs.packing import PackSettings

    settings = PackSettings(int(asked.shard_mb * (1 << 20)), asked.order, asked.max_side)
    return _told(_packed(recipe, settings, asked), asked.output)


def _told(facts: SetFacts, out: str) -> int:
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
        raise Fault("CLI03", what, where="DIR", fix="python -m lun.pack DIR --index-only")
    from lun.data.packs.scanning import index_shards

    return index_shards(Path(asked.folder))


def _packed(recipe: Mapping[str, Any], settings: Any, asked: argparse.Namespace) -> SetFacts:
    from lun.data.building import build_dataset
    from lun.data.packs.packing import Packing

    dataset = build_dataset(recipe, f"{asked.split}.sets.{asked.set}" if asked.set else asked.split)
    return Packing(dataset, Path(asked.output), settings, asked.append).run()


def _recipe(asked: argparse.Namespace) -> Mapping[str, Any]:
    """The recipe that the command line means, checked."""
    if not asked.base:
        if asked.folder is None:
            raise Fault("CLI03", "there is nothing to pack", fix="python -m lun.pack DIR -o OUT, or --base YAML -o OUT")
        if asked.set is not None:
            raise Fault("CLI03", "--set names one of several sets, and there is no config", fix="--base YAML")
        return {"target": LOCAL, "params": {"data_root": asked.folder}}
    merged, _, faults = upgrade(load_layers(asked.base, []))
    path = ("data", "params", asked.split)
    whole = inside(merged.config, *path)
    if not whole:
        raise Fault("CFG03", f"the configuration has no {'.'.join(path)}", where=" ".join(asked.base))
    chosen, where = _chosen(whole, asked.set, path)
    chosen = {"target": LOCAL, **chosen}
    if asked.folder is not None:
        require_folder_setting(chosen["target"], merged.where((*where, "target")), "python -m lun.pack --base YAML")
        chosen = {**chosen, "params": {**(chosen.get("params") or {}), "data_root": asked.folder}}
    require_recipe(
        merged, faults, {**whole, "sets": {**whole["sets"], asked.set: chosen}} if asked.set else chosen, asked.split
    )
    return {"target": chosen["target"], "params": chosen.get("params") or {}}


def _chosen(whole: Mapping[str, Any], name: str | None, path: Sequence[str]) -> tuple[Mapping[str, Any], list[str]]:
    """The recipe of set `name`, or the only one. Raises `Fault` CLI03 where the name does not fit."""
    if not names_sets(whole):
        if name is not None:
            what = f"the configuration has one recipe, and no set {name}"
            raise Fault("CLI03", what, where=".".join(path), fix="without --set")
        return whole, [*path]
    sets = {str(one): recipe for one, recipe in whole["sets"].items() if recipe is not None}
    if name not in sets:
        what = "--set says which of several sets is packed" if name is None else f"there is no set {name}"
        raise Fault("CLI03", what, where=".".join(path), fix=" or ".join(f"--set {quoted(one)}" for one in sets))
    return sets[name], [*path, "sets", name]
