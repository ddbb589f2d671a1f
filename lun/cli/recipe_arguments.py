"""The recipe of one data set, as the command lines name it that read one: DIR, or `--base YAML` with `--set NAME`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ldm.errors import Fault
from ldm.shell import quoted
from lun.config.compat.upgrade import upgrade
from lun.config.data_recipes import LOCAL, inside, require_folder_setting, require_recipe
from lun.config.reading.load_layers import load_layers
from lun.config.several_sets import names_sets
from lun.data.index.missing_folder import folder_given_by


def add_recipe_arguments(parser: argparse.ArgumentParser) -> None:
    """DIR, --base, --set, --split and --allow."""
    parser.add_argument("folder", metavar="DIR", nargs="?", help="the pictures; without it, those of the recipe")
    parser.add_argument("-b", "--base", nargs="+", default=[], metavar="YAML", help="configs with the recipe")
    parser.add_argument("--set", metavar="NAME", help="which of several sets")
    parser.add_argument("--split", default="train", choices=("train", "validation", "test", "predict"))
    parser.add_argument("--allow", metavar="MODULE", action="append", default=[], help="code of yours")


def recipe_split(asked: argparse.Namespace) -> str:
    """Which part of the configuration is meant, for messages."""
    return f"{asked.split}.sets.{asked.set}" if asked.set else str(asked.split)


def of_given_folder(asked: argparse.Namespace, command: str) -> AbstractContextManager[None]:
    """While it is open, faults of the folder name DIR, or the setting of the configs without one.

    command  how the command is typed up to DIR
    """
    return folder_given_by("" if asked.folder is None else command, recipe_split(asked))


def recipe_of(asked: argparse.Namespace, command: str, does: str) -> Mapping[str, Any]:
    """The recipe that the command line means, checked.

    command  how the command is typed, such as `python -m lun.pack`
    does     what it does with pictures: pack

    Raises `Fault` CLI03 where there is none, and the faults of the configuration.
    """
    if not asked.base:
        if asked.folder is None:
            raise Fault("CLI03", f"there is nothing to {does}", fix=f"{command} DIR, or --base YAML")
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
        require_folder_setting(chosen["target"], merged.where((*where, "target")), f"{command} --base YAML")
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
        what = "--set says which of several sets is meant" if name is None else f"there is no set {name}"
        raise Fault("CLI03", what, where=".".join(path), fix=" or ".join(f"--set {quoted(one)}" for one in sets))
    return sets[name], [*path, "sets", name]
