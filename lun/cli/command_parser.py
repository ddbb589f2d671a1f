"""The argparse parser of the commands `python -m lun.NAME`."""

import argparse
from typing import NoReturn

from ldm.errors import Fault
from lun.program import as_started


class CommandParser(argparse.ArgumentParser):
    """Raises `Fault` CLI03 for a command line that it does not understand, instead of leaving the process.

    Its help names the commands as the program was started.
    """

    def format_help(self) -> str:
        return as_started(super().format_help())

    def error(self, message: str) -> NoReturn:
        raise Fault("CLI03", message, where=self.prog, fix=f"{self.prog} --help")
