"""A start that should be refused: what is said, with which exit code, and that nothing was made or lost."""

from pathlib import Path

import pytest
from support.runs import TINY

from lun.trainer import run


class Told:
    """Runs the program in this process in an empty folder and looks at how it refuses."""

    def __init__(self, folder: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.data = data
        self.capsys = capsys

    def refused(self, words: list[str], code: int, fault: str, part: str, begun: bool = False) -> str:
        """Check exit code, id and a part of the message, and that no run has `begun`; returns all of the message."""
        before = self.content()
        found = run(["--logdir", str(self.folder / "logs"), *words, "-t"])
        seen = self.capsys.readouterr()
        assert "Traceback" not in seen.out + seen.err, seen.out[-2000:]
        assert found == code, seen.out + seen.err
        assert seen.err.startswith(f"error[{fault}]: "), seen.err
        assert part in seen.err, seen.err
        assert begun or self.content() == before, seen.err
        return seen.err

    def tiny(self, *words: str, layer: str = "", data: Path | None = None) -> list[str]:
        """A command line of the tiny program, with a YAML text laid over it."""
        files = [str(TINY)]
        if layer:
            (self.folder / "layer.yaml").write_text(layer)
            files.append(str(self.folder / "layer.yaml"))
        return ["--base", *files, "--data_root", str(data or self.data), *words]

    def content(self) -> set[Path]:
        return {path for path in self.folder.rglob("*") if path.name != "layer.yaml"}
