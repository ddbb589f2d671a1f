"""The command line: options, Trainer arguments as options, and settings in any order."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.shell import quoted
from lun.cli.arguments import Arguments
from lun.cli.flag_conflicts import require_effects
from lun.cli.flags import ALIASES, FLAGS, Flag, reads_as
from lun.cli.other_names import Foreign
from lun.config.compat.lightning1_trainer import OLD_ARGUMENTS
from lun.config.suggestions import nearest
from lun.config.top_level import TOP_LEVEL
from lun.config.trainer_arguments import trainer_arguments
from lun.other_trainers.counterparts import VALUE, Counterpart
from lun.other_trainers.programs import here

# `a.b=value`, `a=value` or `~a.b`; the first part of a setting is a name, so that a path with `=` is not taken for one.
_SETTING = re.compile(r"[A-Za-z_][\w-]*(?:\.[^=/\\]+|\[\d+\])*=.*", re.DOTALL)
_NAMED = re.compile(r"[A-Za-z0-9][\w-]*=.+", re.DOTALL)
_REMOVAL = re.compile(r"~[A-Za-z_][\w-]*(?:\.[\w-]+)*")
_SHORT = re.compile(r"-[A-Za-z]")
DEMO = "configs/demo/emoji.yaml"


def parse(argv: Sequence[str]) -> Arguments:
    """The command line without the program's name. Raises `Fault` CLI02 or CLI03; an empty one asks for help."""
    if not argv:
        return Arguments(help=True)
    for word in argv:
        if not _is_text(word):
            raise Fault("CLI03", f"{word!a} is no text", why="a word of the command line has to be UTF-8 without zeros")
    return _ArgumentReader(list(argv)).arguments()


class _ArgumentReader:
    """Reads words from left to right."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.given: dict[str, Any] = {}
        self.base: list[str] = []
        self.overrides: list[str] = []
        self.foreign = Foreign()
        self.understood: list[str] = []

    def arguments(self) -> Arguments:
        in_base = False
        while self.words:
            before, foreign = self.words.copy(), len(self.foreign.written)
            word = self.words.pop(0)
            if is_setting(word):
                self.setting(word)
            elif word.startswith("-") and len(word) > 1:
                in_base = self.flag(word) == "--base"
            elif in_base:
                self.base.append(word)
                continue
            else:
                raise Fault("CLI03", f"cannot place {word}", fix=f"config files follow --base: --base {quoted(word)}")
            if not in_base and len(self.foreign.written) == foreign:
                self.understood += before[: len(before) - len(self.words)]
        if self.foreign.written:
            raise self.foreign.fault(self.base, self.understood)
        return self.checked()

    def setting(self, word: str) -> None:
        """Take `key=value`; a name that is an option, here or elsewhere, is one without its dashes."""
        name, equals, text = word.partition("=")
        known = _as_option(name) if equals else None
        if known is None:
            self.overrides.append(word)
        else:
            self.foreign.add(name, quoted(word), text, known)

    def flag(self, word: str) -> str:
        """Take a flag and its value; returns the flag's full name."""
        name, equals, text = word.partition("=")
        attached = text if equals else None
        if attached is None and _SHORT.match(name) and len(name) > 2 and not name.startswith("--"):
            name, attached = name[:2], name[2:]
        known = _full_name(name)
        if known == "--base":
            self.base += [attached] if attached else []
        elif known in FLAGS:
            self.take(known, name, FLAGS[known], attached)
        elif (argument := name.lstrip("-").replace("-", "_")) in trainer_arguments() | OLD_ARGUMENTS:
            self.take_trainer_argument(argument, attached)
        elif elsewhere := here(name):
            value = attached if attached is not None else self.next_word() or self.next_pairs(elsewhere)
            self.foreign.add(name, quoted(*(word for word in (name, value) if word is not None)), value, elsewhere)
        else:
            raise _unknown(name, attached)
        return known

    def take(self, known: str, written: str, flag: Flag, attached: str | None) -> None:
        if flag.value == "none":
            if attached is not None:
                raise Fault("CLI03", f"{written} takes no value, got {attached!r}", fix=written)
            self.given[flag.field] = True
            return
        text = attached if attached is not None else self.next_value(flag)
        if text is None:
            if flag.value != "maybe":
                raise Fault("CLI03", f"{written} needs a value", fix=f"{written} VALUE (see --help)")
            self.given[flag.field] = flag.bare
            return
        value = flag.read(text, written)
        if flag.value == "list":
            value = (*self.given.get(flag.field, ()), value)
        self.given[flag.field] = value

    def take_trainer_argument(self, argument: str, attached: str | None) -> None:
        text = attached if attached is not None else self.next_word()
        self.overrides.append(f"lightning.trainer.{argument}={'true' if text is None else text}")

    def next_value(self, flag: Flag) -> str | None:
        """The next word where it can be this flag's value; a flag that may go without leaves what it cannot read."""
        if self.words and flag.value == "maybe" and not reads_as(flag.read, self.words[0]):
            return None
        if self.words and flag.named and _NAMED.fullmatch(self.words[0]) and _name(self.words[0]) not in TOP_LEVEL:
            return self.words.pop(0)
        return self.next_word()

    def next_word(self) -> str | None:
        if not self.words or _is_flag(self.words[0]) or is_setting(self.words[0]):
            return None
        return self.words.pop(0)

    def next_pairs(self, known: Counterpart) -> str | None:
        """The words NAME=VALUE that another trainer's option takes, as long as no section of ours is named."""
        taken: list[str] = []
        while known.pairs and self.words and _NAMED.fullmatch(self.words[0]) and "." not in _name(self.words[0]):
            taken.append(self.words.pop(0))
        return " ".join(taken) or None

    def checked(self) -> Arguments:
        given = self.given
        require_effects(given, bool(self.base or self.overrides))
        if given.get("resume") == "":
            given["resume"] = (Path(given.get("logdir", "logs")) / "latest").as_posix()
        if given.get("resume") is not None:
            _refuse_beside_resume(given)
        if given.get("demo"):
            self.base.insert(0, DEMO)
            given.setdefault("train", True)
        return Arguments(base=tuple(self.base), overrides=tuple(self.overrides), **given)


def is_setting(word: str) -> bool:
    """Whether a word is `key.sub=value` or `~key.sub`; the path of a file that exists is not one."""
    if _REMOVAL.fullmatch(word):
        return True
    return _SETTING.fullmatch(word) is not None and not os.path.exists(word)  # which long words do not break


def _name(word: str) -> str:
    return word.partition("=")[0]


def _is_text(word: str) -> bool:
    try:
        return b"\0" not in word.encode()
    except UnicodeEncodeError:  # what was no UTF-8
        return False


def _is_flag(word: str) -> bool:
    """Negative numbers are values."""
    return word.startswith("--") or _SHORT.match(word) is not None


def _full_name(name: str) -> str:
    name = ALIASES.get(name, name)
    if not name.startswith("--"):
        return name
    spelt = {known.replace("-", "_"): known for known in ("--base", *FLAGS)}
    aliased = {known.replace("-", "_"): full for known, full in ALIASES.items() if known.startswith("--")}
    return (aliased | spelt).get(name.replace("-", "_"), name)


def _as_option(name: str) -> Counterpart | None:
    """What `name=value` means where `name` is an option, here or of another trainer, and no part of a config."""
    if "." in name or "[" in name or name in TOP_LEVEL:
        return None
    full = _full_name(f"--{name}")
    if full in FLAGS:
        return Counterpart((full,) if FLAGS[full].value == "none" else (full, VALUE))
    argument = name.replace("-", "_")
    return Counterpart((f"--{argument}", VALUE)) if argument in trainer_arguments() else here(name)


def _unknown(name: str, attached: str | None) -> Fault:
    key = name.lstrip("-")
    if "." in key:
        return Fault(
            "CLI03",
            f"unknown option {name}",
            why="settings of the configuration are written without dashes",
            fix=quoted(f"{key}={attached if attached is not None else 'VALUE'}"),
        )
    ours = ("--base", *FLAGS, *(alias for alias in ALIASES if alias.startswith("--")))
    near = nearest(name, [*ours, *(f"--{argument}" for argument in trainer_arguments())])
    hint = "for config settings write key=value without dashes, e.g. lightning.trainer.accelerator=gpu"
    return Fault("CLI03", f"unknown option {name}", fix=f"did you mean {near}?   {hint}" if near else hint)


def _refuse_beside_resume(given: dict[str, Any]) -> None:
    run = given["resume"]
    if given.get("init_from") is not None:
        raise Fault(
            "CLI02",
            "--resume and --init-from (--actual_resume) cannot be used together",
            why="--resume continues a run (step counter, optimizer, log directory);"
            " --init-from starts a new run from weights only",
            fix=f"continue:   python main.py --resume {quoted(run)} -t\n"
            f"start new:  python main.py --base ... --init-from {quoted(given['init_from'])} -t",
        )
    if given.get("name") is not None:
        raise Fault(
            "CLI02",
            "--resume and --name cannot be used together",
            why="--resume goes on in the directory of the run, which has its name already",
            fix=f"continue:   python main.py --resume {quoted(run)} -t\n"
            f"start new:  python main.py --base ... --init-from CHECKPOINT -n {quoted(given['name'] or 'NAME')} -t",
        )
