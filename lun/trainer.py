"""The program: parse, load, check, plan, run directory, model, data, trainer, fit."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import Fault
from ldm.shell import quoted
from lun.cli import parser
from lun.cli.arguments import Arguments
from lun.cli.usage import usage, version
from lun.cli.user_code import admit_user_code
from lun.config.reading.presets import listing
from lun.console import fault_report, log
from lun.console.collecting import put_off_collecting
from lun.console.ending import reported
from lun.program import as_started
from lun.run_dir.lock import take_over
from lun.run_dir.ranks import process_rank

if TYPE_CHECKING:
    from lun.run.session import Session
    from lun.run.settings import Settings
    from lun.run_dir.resume import Resume


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says (`sys.argv` by default) and return the exit code; nothing is raised."""
    words = sys.argv[1:] if argv is None else list(argv)
    if argv is None:
        put_off_collecting()
    return reported(lambda: _start(parser.parse(words), words), words)


def _start(arguments: Arguments, words: list[str]) -> int:
    if (answered := _answer(arguments)) is not None:
        return answered
    if arguments.new:
        arguments, words = _first_config(arguments)
    return _go(arguments, words)


def _go(arguments: Arguments, words: list[str]) -> int:
    # Needs packages whose absence the doctor has reported by now.
    from lun.check.verdict import check
    from lun.run.required_files import require_files
    from lun.run.restarts import going_on
    from lun.run.settings import as_yaml, look_at_settings

    if arguments.debug:
        os.environ["LUN_DEBUG"] = "1"
    log.configure(None, process_rank())
    admit_user_code(arguments.allow, families=arguments.family)
    arguments = going_on(arguments, words)
    resume = _find(arguments.resume, arguments.take_over and arguments.train) if arguments.resume else None
    settings, faults = look_at_settings(arguments, resume)
    if arguments.print_config:
        print(as_yaml(settings.config), end="")
        fault_report.show(faults, "warning")
        return 0
    if arguments.check:
        check(settings, faults, arguments.time_limit is not None, resumed=resume is not None)
        return 0
    if faults:
        error = ExceptionGroup("faults in the configuration", faults)
        _show_what_is_known(settings, arguments, error)
        raise error
    settings.say_notes()
    arguments, settings = _fitted(arguments, settings)
    if arguments.train:
        require_files(settings.config, resumed=resume is not None)
    # Imports torch, which takes seconds; everything above has answered by then.
    from lun.plan.outlook import require_places, show_plan
    from lun.run.session import Session

    try:
        session = Session.prepare(settings, arguments, resume)
    except (Fault, ExceptionGroup) as error:
        _show_what_is_known(settings, arguments, error)
        raise
    show_plan(session)
    session.require_weights_and_data()
    require_places(session)
    return session.fit(words) if arguments.train else _instead_of_training(session, words)


def _instead_of_training(session: Session, words: list[str]) -> int:
    """Rehearse where that was asked for, and say how to train."""
    if session.arguments.probe:
        from lun.probe.probe import probe

        if code := probe(session):
            return code
    session.say_how_to_train([word for word in words if word != "--probe"])
    return 0


def _fitted(arguments: Arguments, settings: Settings) -> tuple[Arguments, Settings]:
    """Both as they were, or with what `--fit` chose."""
    if arguments.fit is None:
        return arguments, settings
    from lun.memory.fit import fitted  # torch
    from lun.run.settings import read_settings

    chosen = fitted(arguments, settings)
    return chosen, read_settings(chosen, None)


def _show_what_is_known(settings: Settings, arguments: Arguments, error: Exception) -> None:
    """The plan as far as it is known, where one was asked for and all that is wrong is that something is missing."""
    from lun.run.settings import is_missing

    if not arguments.train and is_missing(error):
        from lun.plan.plan import Plan

        for line in Plan(settings, len(arguments.overrides)).lines():
            print(as_started(line))


def _answer(arguments: Arguments) -> int | None:
    """The exit code of what looks at no configuration, once it has answered; None where something else is asked for."""
    if arguments.help or arguments.version:
        print(usage() if arguments.help else version())
    elif arguments.list_presets:
        print(as_started(listing()), end="")
    elif arguments.print_completion:
        _print_completion(arguments.print_completion)
    elif arguments.schema is not None:
        _write_schema(arguments.schema)
    else:
        return _examine(Path(arguments.logdir)) if arguments.doctor else None
    return 0


def _print_completion(shell: str) -> None:
    from lun.cli.completion import script_of_training  # reads what Lightning's Trainer takes

    print(script_of_training(shell), end="")


def _write_schema(file: str) -> None:
    from lun.config.reference.json_schema import schema_text  # reads the sources of all that can be named

    if not file:
        print(schema_text(), end="")
        return
    from ldm.files.replacing import replace_text

    replace_text(Path(file), schema_text())
    print(f"wrote {file}; the first lines of a config name it:\n# yaml-language-server: $schema={quoted(file)}")


def _first_config(arguments: Arguments) -> tuple[Arguments, list[str]]:
    """The command line for the configuration that `--new` writes."""
    from lun.new.first_config import write_first_config  # torch, to look at pictures and predict memory

    log.configure(None)
    words = ["--base", str(write_first_config(arguments))]
    return parser.parse(words), words


def _examine(logdir: Path) -> int:
    from lun.doctor.examination import doctor  # looks at torch, too

    return doctor(logdir)


def _find(target: str, alone: bool) -> Resume:
    """The checkpoint to go on from; with `alone` once nobody else writes into its run."""
    from lun.run_dir.resume_target import resume_target

    resume_target(target)
    from lun.run_dir.resume import find_checkpoint  # torch, to look into checkpoints

    resume = find_checkpoint(target)
    if not alone or process_rank() != 0:
        return resume
    take_over(resume.run.path)
    return find_checkpoint(target)
