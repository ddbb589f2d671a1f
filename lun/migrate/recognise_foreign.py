"""Which program a file or a command is of, by its form, and the configuration that it comes to."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.plain import parse_json
from lun.config.reading.yaml_files import read_text
from lun.config.reading.yaml_tree import parse
from lun.migrate import kohya, onetrainer, simpletuner
from lun.migrate.command_lines import Command, command_in
from lun.migrate.draft import Draft
from lun.migrate.foreign import Found
from lun.migrate.runs import ai_toolkit_run, diffusers_run, kohya_run, onetrainer_run, simpletuner_run, translunar
from lun.other_trainers.counterparts import ProgramTable
from lun.other_trainers.kohya_table import KOHYA

KNOWN = (
    "commands of kohya's and diffusers' scripts, kohya's training TOML and dataset TOML, OneTrainer's preset and"
    " concepts JSON, SimpleTuner's config and multidatabackend JSON, ai-toolkit's and translunar's YAML"
)
_COMMANDS = (
    ("diffusers", diffusers_run.SCRIPT, diffusers_run.read),
    ("kohya", kohya_run.SCRIPT, kohya_run.read),
)
"""(program, names of its scripts, reader of their options); the first whose script is started is meant."""


def _beside(read: Callable[[Any, Path], Draft]) -> Callable[[Any, Path], Draft]:
    """A reader of what lies beside the file, too."""
    return lambda given, path: read(given, path.parent)


_STRUCTURED = (".toml", ".json", ".yaml", ".yml")
_SETS_ALONE = ProgramTable("", "", {})


def read_foreign(what: str) -> tuple[str, Draft]:
    """(whose it is, what it comes to) of a file, or of a command as one word.

    Raises `Fault` CFG01 for no file, CFG02 for one that is not of a known form.
    """
    path = Path(what)
    is_command = any(sign in what for sign in (" ", "\n"))
    if not is_command and not path.exists():
        raise Fault("CFG01", f"file not found: {what}", where="WHAT", fix="a file, or a command in quotes")
    is_file = path.is_file() if len(what) < 1000 else False
    try:
        if is_file and path.suffix.lower() in _STRUCTURED:
            return _by_form(_content(path), path)
        text, beside = (read_text(path), path.parent) if is_file else (what, Path())
        return _by_script(text, beside, what if is_file else "the command")
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise _unknown(what, f"{type(error).__name__}: {error}") from error


Reader = Callable[[Any, Path], Draft]
_MAPS: tuple[tuple[str, Callable[[Any, Path], bool], Reader], ...] = (
    (
        "kohya",
        lambda given, path: isinstance(given.get("datasets"), list),
        lambda given, path: _sets(kohya.read(given)),
    ),
    (
        "translunar-diffusion",
        lambda given, path: path.suffix.lower() in (".yaml", ".yml") and translunar.is_ours(given),
        lambda given, path: translunar.read([str(path)]),
    ),
    ("SimpleTuner", lambda given, path: simpletuner_run.is_ours(given), _beside(simpletuner_run.read)),
    ("OneTrainer", lambda given, path: bool(given.keys() & set(onetrainer_run.SIGNS)), _beside(onetrainer_run.read)),
    ("ai-toolkit", lambda given, path: "config" in given, lambda given, path: ai_toolkit_run.read(given)),
    (
        "kohya",
        lambda given, path: path.suffix.lower() == ".toml" and bool(kohya_run.flat(given).keys() & KOHYA.rows.keys()),
        lambda given, path: kohya_run.read(kohya_run.flat(given), "", path.parent),
    ),
)
"""(program, whether a map is of it, its reader); the first that knows it is meant."""
_LISTS: tuple[tuple[str, tuple[str, ...], Callable[[Any], Found]], ...] = (
    ("SimpleTuner", ("dataset_type", "instance_data_dir"), simpletuner.read),
    ("OneTrainer", ("path",), onetrainer.read),
)
"""(program, keys by which its lists of sets are known, their reader)."""


def _by_form(content: Any, path: Path) -> tuple[str, Draft]:
    if isinstance(content, Mapping):
        for program, is_of_it, read in _MAPS:
            if is_of_it(content, path):
                return program, read(content, path)
    if isinstance(content, list) and all(isinstance(one, Mapping) for one in content):
        for program, keys, read_sets in _LISTS:
            if any(key in one for key in keys for one in content):
                return program, _sets(read_sets(content))
    raise _unknown(str(path), "its form is that of none of them")


def _by_script(text: str, beside: Path, where: str) -> tuple[str, Draft]:
    for program, script, read in _COMMANDS:
        command = command_in(text, script)
        if command is not None:
            if precision := command.launcher.pop("mixed_precision", None):
                command.options.setdefault("mixed_precision", precision)
            return program, _with_launcher(command, read(command.options, command.script, beside))
    raise _unknown(where, "no script of theirs is started in it")


def _with_launcher(command: Command, draft: Draft) -> Draft:
    """What `accelerate launch` says besides, and words that are no option's."""
    count = command.launcher.pop("num_processes", command.launcher.pop("nproc_per_node", None))
    if count is not None:
        draft.set("lightning.trainer.devices", int(count))
    for name, value in command.launcher.items():
        draft.note("same", f"{name} = {value} of the launcher: `--devices`, `--base ddp`, lightning.trainer.precision")
    for word in command.others:
        draft.note("unknown", word)
    return draft


def _sets(found: Found) -> Draft:
    """The sets of a file that says nothing else: a layer beside a model's."""
    draft = Draft(_SETS_ALONE)
    layer = found.layer()
    draft.settings = layer
    for line in found.unread:
        draft.note("none", line)
    for path, value in found.settings.items():
        draft.set(path, value)
    return draft


def _content(path: Path) -> Any:
    text = read_text(path)
    try:
        if path.suffix.lower() == ".toml":
            return tomllib.loads(text)
        if path.suffix.lower() == ".json":
            return parse_json(text)
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, ValueError) as error:
        raise Fault("CFG02", f"{path} cannot be read", where=str(path), why=str(error)) from error
    return parse(text, path.as_posix()).plain()


def _unknown(what: str, why: str) -> Fault:
    return Fault("CFG02", f"{what} is nothing that is known", where=what, why=why, fix=KNOWN)
