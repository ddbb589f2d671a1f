"""A board over a few runs, asked without a socket."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.run_folder import make_run
from werkzeug.test import Client

from lun.board.board_app import BoardApp
from lun.board.gate import Gate


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two runs of one name in different folders, the link to the newest, and a secret beside them."""
    root = tmp_path / "logs"
    make_run(root / "a" / "same")
    make_run(root / "b" / "same", seed=8)
    (root / "latest").symlink_to("b/same")
    make_run(tmp_path / "secret")
    (root / "out").symlink_to(tmp_path / "secret")
    return root


@pytest.fixture
def board(logs: Path) -> Callable[[str | None], Client]:
    """A browser of the board, at the address of this machine; with a token or without."""
    return lambda token=None: Client(BoardApp(logs, Gate(token)))
