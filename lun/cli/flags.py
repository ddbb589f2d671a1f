"""The options of the command line and how each reads its value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ldm.errors import Fault

TRUE = ("yes", "true", "t", "y", "1", "on")
FALSE = ("no", "false", "f", "n", "0", "off")

SHELLS = ("bash", "zsh")

Read = Callable[[str, str], Any]


@dataclass(frozen=True)
class Flag:
    """One option: the field of `Arguments` it sets and what it does with the word after it.

    `value` is `none` (takes no word), `one` (needs a word), `maybe` (takes the next word where it reads as a value,
    and means `bare` without) or `list` (adds one word to a tuple). With `named`, NAME=DIR is a value
    and no setting.
    """

    field: str
    value: Literal["none", "one", "maybe", "list"]
    read: Read = lambda text, flag: text
    bare: Any = True
    named: bool = False


def boolean(text: str, flag: str) -> bool:
    """true or false in any of the spellings that were accepted in 2022."""
    if text.lower() in TRUE:
        return True
    if text.lower() in FALSE:
        return False
    raise Fault("CLI03", f"{flag} takes true or false, not {text!r}", fix=f"{flag} true")


def scale(text: str, flag: str) -> str:
    """The rule by which the learning rate grows with the pictures of a step; true is the linear one."""
    if text.lower() in ("none", "linear", "sqrt"):
        return text.lower()
    if text.lower() in TRUE + FALSE:
        return "linear" if text.lower() in TRUE else "none"
    raise Fault("CLI03", f"{flag} takes none, linear or sqrt, not {text!r}", fix=f"{flag} linear")


def seed(text: str, flag: str) -> int:
    """A whole number; 0 is a seed."""
    if not re.fullmatch(r"-?\d+", text):
        raise Fault("CLI03", f"{flag} takes a whole number, not {text!r}", fix=f"{flag} 0")
    return int(text)


def time_limit(text: str, flag: str) -> int:
    """Seconds of `H:MM`."""
    match = re.fullmatch(r"(\d+):([0-5]\d)", text)
    if match is None:
        raise Fault("CLI03", f"{flag} takes hours and minutes as H:MM, not {text!r}", fix=f"{flag} 1:30")
    return int(match[1]) * 3600 + int(match[2]) * 60


def gibibytes(text: str, flag: str) -> float:
    """A number above 0."""
    if not re.fullmatch(r"\d+(\.\d+)?", text) or not float(text):
        raise Fault("CLI03", f"{flag} takes a number of GiB, not {text!r}", fix=f"{flag} 12")
    return float(text)


def change(text: str, flag: str) -> str:
    """What may differ from the run that is resumed."""
    if text not in ("data", "batch") and not re.fullmatch(r"data:[\w\-]+", text):
        takes = "data, data:NAME for one of several sets, or batch"
        raise Fault("CLI03", f"{flag} takes {takes}, not {text!r}", fix=f"{flag} data {flag} batch")
    return text


def shell(text: str, flag: str) -> str:
    """A shell that completes words."""
    if text not in SHELLS:
        raise Fault("CLI03", f"{flag} takes {' or '.join(SHELLS)}, not {text!r}", fix=f"{flag} bash")
    return text


def reads_as(read: Read, text: str) -> bool:
    """Whether `text` is a value of this kind."""
    try:
        read(text, "")
    except Fault:
        return False
    return True


FLAGS: Mapping[str, Flag] = {
    "--train": Flag("train", "maybe", boolean),
    "--resume": Flag("resume", "maybe", bare=""),
    "--init-from": Flag("init_from", "one"),
    "--name": Flag("name", "maybe", bare=""),
    "--postfix": Flag("postfix", "one"),
    "--logdir": Flag("logdir", "one"),
    "--seed": Flag("seed", "one", seed),
    "--project": Flag("project", "one"),
    "--debug": Flag("debug", "maybe", boolean),
    "--scale_lr": Flag("scale_lr", "maybe", scale, bare="linear"),
    "--no-test": Flag("no_test", "maybe", boolean),
    "--data_root": Flag("data_root", "list", named=True),
    "--datadir_in_name": Flag("datadir_in_name", "maybe", boolean),
    "--demo": Flag("demo", "none"),
    "--check": Flag("check", "none"),
    "--doctor": Flag("doctor", "none"),
    "--new": Flag("new", "none"),
    "--probe": Flag("probe", "none"),
    "--print-config": Flag("print_config", "none"),
    "--list-presets": Flag("list_presets", "none"),
    "--schema": Flag("schema", "maybe", bare=""),
    "--print-completion": Flag("print_completion", "one", shell),
    "--accept-change": Flag("accept_change", "list", change),
    "--time-limit": Flag("time_limit", "one", time_limit),
    "--fit": Flag("fit", "maybe", gibibytes, bare=0.0),
    "--allow": Flag("allow", "list"),
    "--family": Flag("family", "list"),
    "--take-over": Flag("take_over", "none"),
    "--help": Flag("help", "none"),
    "--version": Flag("version", "none"),
}
ALIASES: Mapping[str, str] = {
    "-t": "--train",
    "-r": "--resume",
    "-n": "--name",
    "-f": "--postfix",
    "-l": "--logdir",
    "-s": "--seed",
    "-p": "--project",
    "-d": "--debug",
    "-b": "--base",
    "-h": "--help",
    "--actual_resume": "--init-from",
}


def flag_of(field: str) -> str:
    """The flag that sets a field of `Arguments`, as it is written."""
    return next((name for name, flag in FLAGS.items() if flag.field == field), f"--{field}")
