"""Which flags of `main.py` the other commands that take its words carry out; all others are refused there, by name."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from ldm.errors import Fault
from lun.cli.arguments import Arguments
from lun.cli.flags import FLAGS, flag_of

ANSWERED = ("help", "version", "print_completion")
_CONFIGS = frozenset({"base", "overrides", "debug", "allow", "family"})


@dataclass(frozen=True)
class TakenFlags:
    """What a command does with the words of `main.py`.

    fields  of `Arguments` that it carries out
    why     it does not carry out the others
    """

    fields: frozenset[str]
    why: str


TAKEN: Mapping[str, TakenFlags] = {
    "python -m lun.memory": TakenFlags(
        _CONFIGS.union(ANSWERED),
        "it predicts memory from the configuration alone, and no run begins",
    ),
    "python -m lun.data.cache": TakenFlags(
        _CONFIGS.union(ANSWERED, {"data_root", "init_from"}), "it fills caches, and no run begins"
    ),
    "python -m lun.sweep": TakenFlags(
        _CONFIGS.union(
            {"train", "demo", "fit", "data_root", "init_from", "seed", "scale_lr"},
            {"datadir_in_name", "project", "no_test"},  # as `main.py` takes them, in each run
        ),
        "each of its runs begins anew, in a place of the sweep's own (-o DIR), and trains to its end",
    ),
}
"""Command, as it is typed -> its flags."""


def require_taken(arguments: Arguments, command: str, where: str = "") -> None:
    """Raise `Fault` CLI02 for all flags that the command does not carry out; a value that is the default says nothing.

    where  what the message points at, where that is not the command line
    """
    taken, default = TAKEN[command], Arguments()
    others = [field.name for field in fields(Arguments) if field.name not in taken.fields]
    idle = [name for name in others if getattr(arguments, name) != getattr(default, name)]
    if arguments.demo and "train" in idle:
        idle.remove("train")  # which --demo says
    if not idle:
        return
    flags = [flag_of(name) for name in idle]
    what = f"{_joined(flags)} {'has' if len(flags) == 1 else 'have'} no effect in {command}"
    fix = f"leave {'it' if len(flags) == 1 else 'them'} out"
    raise Fault("CLI02", what, where=where, why=taken.why, fix=fix)


def flags_taken(command: str) -> list[str]:
    """The flags that a command carries out, as they are written; all of them for one that takes all of `main.py`'s."""
    taken = TAKEN.get(command)
    return ["--base", *(name for name, flag in FLAGS.items() if taken is None or flag.field in taken.fields)]


def _joined(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
