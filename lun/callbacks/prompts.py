"""The prompts that are sampled: a list of the config, or a text file that is read again each time."""

import logging
from collections.abc import Sequence
from pathlib import Path

from ldm.errors import Fault

log = logging.getLogger(__name__)


class Prompts:
    """The `current` prompts of a list, or of a file with one a line; empty lines and those that begin with # are none.

    Raises `Fault` CFG01 if there is no such file at the start; one that cannot be read later leaves them as they are.
    """

    def __init__(self, source: Sequence[str] | str) -> None:
        self.file = Path(source).absolute() if isinstance(source, str) else None
        try:
            self.current = list(source) if self.file is None else _lines(self.file)
        except (OSError, UnicodeDecodeError) as error:
            raise Fault(
                "CFG01",
                f"cannot read the prompts in {source}",
                where="lightning.callbacks.image_logger.params.prompts",
                why=str(error),
                fix="a text file with one prompt a line, or a list: prompts: [a red fox, a blue bird]",
            ) from error

    def read_again(self) -> list[str]:
        """The prompts as they stand in the file now; a list stays what it is."""
        try:
            self.current = self.current if self.file is None else _lines(self.file)
        except (OSError, UnicodeDecodeError) as error:
            log.warning("the prompts stay as they were: %s", error)
        return self.current


def _lines(file: Path) -> list[str]:
    lines = (line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines())
    return [line for line in lines if line and not line.startswith("#")]
