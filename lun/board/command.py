"""The command: serve what, where, and to whom; or write the pages of runs and leave."""

from __future__ import annotations

import argparse
import logging
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import Fault
from lun.cli.command_parser import CommandParser
from lun.console import log as console
from lun.console.ending import reported

if TYPE_CHECKING:
    from werkzeug.serving import BaseWSGIServer

    from lun.board.board_app import BoardApp

log = logging.getLogger(__name__)

HOST, PORT = "127.0.0.1", 6017

_ABOUT = """the pages of all runs below a directory, live, in a browser of this machine; two or more side by side

with --host or --port whoever has the token of the address is served: that of LUN_BOARD_TOKEN, else one is drawn"""


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _board(_parsed(words)), ["python -m lun.board", *words])


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="python -m lun.board", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("logdir", metavar="LOGDIR", nargs="?", default="logs", help="where the runs are, or one (logs)")
    parser.add_argument("--once", action="store_true", help="write report.html into each run instead, and leave")
    parser.add_argument("--host", metavar="ADDRESS", help=f"listen there, not at {HOST}, with a token")
    parser.add_argument("--port", metavar="N", type=int, help=f"listen at this port, not at {PORT}, with a token")
    return parser.parse_args(words)


def _board(asked: argparse.Namespace) -> int:
    console.configure(None)
    root = Path(asked.logdir)
    if not root.is_dir():
        raise Fault("RES01", f"there is no folder {root}", where="LOGDIR", fix="python -m lun.board LOGDIR")
    if asked.once:
        if asked.host is not None or asked.port is not None:
            raise Fault("CLI03", "--host and --port have no effect beside --once", where="--once")
        return _write(root)
    server = server_of(root, asked.host, asked.port)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        log.info("stopped")
    finally:
        server.server_close()
    return 0


def _write(root: Path) -> int:
    from lun.board.runs_below import runs_below
    from lun.report.run_page import write_page
    from lun.report.sample_tiles import TileCache

    runs, left_out = runs_below(root)
    if not runs:
        raise Fault("RES01", f"there is no run in {root}", where="LOGDIR", fix="python -m lun.board LOGDIR --once")
    for path in runs.values():
        try:
            log.info("look     %s", write_page(path, TileCache()))
        except OSError as error:
            raise Fault("DSK01", f"cannot write into {path}: {error.strerror or error}", where="LOGDIR") from error
    for line in left_out:
        log.info("note: not written: %s", line)
    return 0


def server_of(root: Path, host: str | None, port: int | None) -> BaseWSGIServer:
    """The server, which listens; its address was said. Raises `Fault` CLI03 where it cannot listen."""
    from lun.board.board_app import BoardApp
    from lun.board.gate import Gate, drawn_token

    token = None if host is None and port is None else drawn_token()
    server = _listening(BoardApp(root, Gate(token)), host or HOST, port)
    address = f"http://{host or HOST}:{server.port}/"
    log.info("runs     %s", root)
    log.info("look     %s%s", address, f"?token={token}" if token else "")
    return server


def _listening(app: BoardApp, host: str, port: int | None) -> BaseWSGIServer:
    """At the port that was asked for; by default at `PORT`, or any other where that is taken."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class UnloggedHandler(WSGIRequestHandler):
        """Says nothing of each request."""

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    tries = [PORT, 0] if port is None else [port]
    for number in tries:
        try:
            with socket.create_server((host, number)) as listening:
                return make_server(
                    host, number, app, threaded=True, request_handler=UnloggedHandler, fd=listening.fileno()
                )
        except (OSError, OverflowError) as error:
            if number == tries[-1]:
                what, fix = f"cannot listen at {host}:{number}", "--port N, a free one"
                raise Fault("CLI03", what, where="--host, --port", why=str(error), fix=fix) from error
    raise AssertionError
