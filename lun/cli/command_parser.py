"""The argparse parser of the commands `python -m lun.NAME`."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from ldm.errors import Fault
from lun.cli.flags import SHELLS
from lun.program import as_started


class CommandParser(argparse.ArgumentParser):
    """Raises `Fault` CLI03 for a command line that it does not understand, instead of leaving the process.

    Its help names the commands as the program was started.
    """

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        if self.prog.startswith("python ") and self.prog.count(" ") > 2:
            return  # of one of its subcommands, for which the whole command's script stands
        said = f"a script for {' or '.join(SHELLS)} to complete this command by"
        self.add_argument("--print-completion", action=PrintCompletion, choices=SHELLS, metavar="SHELL", help=said)

    def format_help(self) -> str:
        return as_started(super().format_help())

    def error(self, message: str) -> NoReturn:
        raise Fault("CLI03", message, where=self.prog, fix=f"{self.prog} --help")


class PrintCompletion(argparse.Action):
    """Prints the script and ends, as `--help` does, whatever else is on the line."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> NoReturn:
        from lun.cli.completion import script_of_module  # reads the shipped presets

        print(script_of_module(parser, parser.prog, str(values)), end="")
        parser.exit()
