"""A server of files in a folder, with ranges, and with whatever goes wrong on the way."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

Trouble = Callable[[str, int], str | None]
"""(name of a file, requests for it before) -> what goes wrong: `503`, `403`, `404`, `cut`, `flip`, `stall`, or None"""

STALL_SECONDS = 3.0


class FaultServer(ThreadingHTTPServer):
    """Serves the files of `root`; `trouble` decides what happens to each GET of a range."""

    daemon_threads = True

    def __init__(self, root: Path, trouble: Trouble | None = None, handler: "type[FaultHandler] | None" = None) -> None:
        super().__init__(("127.0.0.1", 0), handler or FaultHandler)
        self.root = root
        self.trouble: Trouble = trouble or (lambda name, before: None)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class FaultHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultServer

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        name = self.path.strip("/")
        before = self.server.asked.count(name)
        trouble = self.server.trouble(name, before) if body else None
        if body:
            self.server.asked.append(name)
        file = self.server.root / name
        if trouble in ("503", "403", "404") or not file.is_file():
            self.send_response(int(trouble) if trouble else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self._send(file.read_bytes(), body, trouble)

    def _send(self, whole: bytes, body: bool, trouble: str | None) -> None:
        asked = self.headers.get("Range")
        first, last = 0, len(whole) - 1
        if asked:
            begin, _, end = asked.removeprefix("bytes=").partition("-")
            first, last = int(begin), min(last, int(end) if end else last)
        data = whole[first : last + 1]
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", '"tag"')
        self.send_header("Last-Modified", "Tue, 01 Nov 2022 12:00:00 GMT")
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(whole)}")
        self.end_headers()
        if not body:
            return
        if trouble == "stall":
            time.sleep(STALL_SECONDS)
        if trouble == "flip":
            data = data[:-1] + bytes([data[-1] ^ 1])
        self.wfile.write(data[: len(data) // 2] if trouble == "cut" else data)
        if trouble == "cut":
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@contextmanager
def serving(root: Path, trouble: Trouble | None = None) -> Iterator[FaultServer]:
    with served(FaultServer(root, trouble)) as server:
        yield server


@contextmanager
def served(server: FaultServer) -> Iterator[FaultServer]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
