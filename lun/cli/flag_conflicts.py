"""Flags that would say nothing beside others, or without them: refused, by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from ldm.shell import quoted
from lun.cli.arguments import Arguments
from lun.cli.flags import flag_of

INFORMATION = ("help", "version")
"""Whatever stands beside them, they answer."""
LOOKING: Mapping[str, Collection[str]] = {
    "doctor": ("logdir", "debug"),
    "list_presets": ("debug",),
    "schema": ("debug",),
    "print_completion": ("debug",),
}
"""What looks at no configuration -> what it takes."""
WRITING = ("new", "base", "init_from", "data_root", "fit", "name", "debug")
"""What writes a configuration, and what it takes."""
STOPPING = ("doctor", "list_presets", "schema", "print_completion", "print_config", "check")
"""What answers and stops: one of them at a time."""


def require_effects(given: Mapping[str, Any], settings: bool) -> None:
    """Raise `Fault` CLI02 for the first flag that would have no effect.

    given     what was said, by the field of `Arguments`; `resume` is '' where its value was left out
    settings  whether files or settings of a configuration are named
    """
    if any(given.get(name) for name in INFORMATION):
        return
    for fault in _faults(given, settings):
        raise fault


def _faults(given: Mapping[str, Any], settings: bool) -> Iterator[Fault]:
    stopping = [name for name in STOPPING if given.get(name) not in (None, False)]
    if len(stopping) > 1:
        yield _together(stopping[0], stopping[1], "each of them answers and stops", f"{flag_of(stopping[0])} alone")
    for name in set(stopping) & LOOKING.keys():
        for other in given.keys() - {name, *LOOKING[name]}:
            yield _together(name, other, "it reads no configuration and starts nothing", flag_of(name))
        if settings:
            yield _together(name, "base", "it reads no configuration and starts nothing", flag_of(name))
    yield from _of_choosing(given)
    if given.get("no_test") is False:
        why = "a run trains and validates; it does not test"
        yield Fault("CLI02", "--no-test false asks for a test, and there is none", why=why, fix="leave it out")
    if "resume" in given and "postfix" in given:
        why = "--resume goes on in the directory of the run, which has its name already"
        yield _together("resume", "postfix", why, "leave out --postfix")
    if "resume" in given and "demo" in given:
        why = "--resume goes on with the configuration of the run, and --demo begins one with its own"
        yield _together("resume", "demo", why, "leave out one of them")
    if "accept_change" in given and "resume" not in given:
        why = "it says what may differ from the run that goes on, and a new run is asked for"
        fix = "python main.py --resume --accept-change data -t"
        yield Fault("CLI02", "--accept-change has no effect without --resume", why=why, fix=fix)
    if "take_over" in given and "resume" not in given:
        why = "it stops the process that trains the run which goes on, and a new run is asked for"
        fix = "python main.py --resume --take-over -t"
        yield Fault("CLI02", "--take-over has no effect without --resume", why=why, fix=fix)


def _of_choosing(given: Mapping[str, Any]) -> Iterator[Fault]:
    """Of what chooses settings for a person."""
    for name in given.keys() - {*WRITING} if given.get("new") else ():
        yield _together("new", name, "it writes a configuration and trains nothing", "--new first; then --base mine -t")
    for name in ("train", "check", "print_config", "resume", "name", "postfix", "time_limit"):
        if given.get("probe") and given.get(name) not in (None, False):
            yield _together("probe", name, "it rehearses a run that begins, and leaves nothing behind", "--probe alone")
    for name in ("check", "print_config", "resume"):
        if "fit" in given and name in given:
            why = "a run goes on as it began" if name == "resume" else "it judges and shows what is written"
            yield _together("fit", name, why, "leave out --fit")


def notes(arguments: Arguments) -> list[str]:
    """A sentence for each flag of old command lines that is taken without effect."""
    notes = []
    if arguments.project is not None:
        notes.append(f"--project {quoted(arguments.project)} is not read; --name says what a run is called")
    if arguments.resume is not None:
        idle = {"--datadir_in_name": arguments.datadir_in_name is not None, "--logdir": _is_idle_logdir(arguments)}
        why = "has no effect beside --resume, which goes on in the directory of the run"
        notes += [f"{flag} {why}" for flag, given in idle.items() if given]
    return notes


def _is_idle_logdir(arguments: Arguments) -> bool:
    """The newest run is looked for there; a run that is named is not."""
    newest = (Path(arguments.logdir) / "latest").as_posix()
    return arguments.logdir != Arguments().logdir and arguments.resume != newest


def _together(name: str, other: str, why: str, fix: str) -> Fault:
    return Fault("CLI02", f"{flag_of(name)} and {flag_of(other)} cannot be used together", why=why, fix=fix)
