"""Commands that take the words of `main.py`: what they answer before they do anything."""

import os
from collections.abc import Sequence

from ldm.errors import Fault
from lun.cli.arguments import Arguments
from lun.cli.parser import parse
from lun.cli.taken_flags import require_taken
from lun.cli.usage import version
from lun.program import as_started


def borrowed_words(words: Sequence[str], command: str, usage: str, example: str) -> Arguments | None:
    """What the words say; None where a help text, versions or a completion script was asked for, which is printed.

    command  how it is typed: `python -m lun.memory`
    example  words of such a command line

    Raises `Fault` CLI02 or CLI03 for words that `main.py` does not take, CLI02 for those that the command does not
    carry out, CLI03 where no configuration is named.
    """
    arguments = parse(words)
    if arguments.help or arguments.version:
        print(as_started(usage).rstrip() if arguments.help else version())
        return None
    require_taken(arguments, command)
    if arguments.print_completion:
        from lun.cli.completion import script_of_training  # reads what Lightning's Trainer takes

        print(script_of_training(arguments.print_completion, command), end="")
        return None
    if not arguments.base:
        raise Fault("CLI03", "--base is needed", fix=f"{command} {example}")
    if arguments.debug:
        os.environ["LUN_DEBUG"] = "1"
    return arguments
