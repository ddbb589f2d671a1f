"""What the server answers: the list of runs, the page of one, several side by side; all of it only to be read."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from werkzeug.exceptions import BadRequest, Forbidden, HTTPException, NotFound
from werkzeug.routing import Map, Rule
from werkzeug.utils import redirect
from werkzeug.wrappers import Request, Response

from lun.board.gate import COOKIE, Gate
from lun.board.runs_below import listed, runs_below
from lun.board.side_by_side import MOST, compared, comparison_page
from lun.pages.document import document, fragment
from lun.report.run_facts import RunFacts
from lun.report.run_page import day, look, run_page, scripts
from lun.report.sample_tiles import TileCache
from lun.run_dir.directory import RunDirectory

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

ROUTES = (("/", "runs"), ("/run/<path:name>", "run"), ("/compare", "compare"))
BACK = "<p><a href='/'>all runs</a></p>"
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
LIVES = 20
"""Seconds after which the page of a run that trains is made anew though no file changed: processes end unheard."""
WATCHED = ("run.json", "metrics.jsonl", "console.log", "images/samples/samples.jsonl", "checkpoints", "metrics")


class BoardApp:
    """A WSGI application that serves the runs below `root` to whoever `gate` lets in.

    A run is what `runs_below` finds, looked up by name: no path of a request ever becomes a path of the disk.
    """

    def __init__(self, root: Path, gate: Gate) -> None:
        self.root = root
        self.gate = gate
        self._cache = TileCache()
        self._one_at_a_time = threading.Lock()
        self._routes = Map([Rule(rule, endpoint=name, methods=["GET"]) for rule, name in ROUTES], merge_slashes=False)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        try:
            response = self._answer(request)
        except HTTPException as error:
            response = Response(f"{error.code} {error.name}\n", status=error.code, mimetype="text/plain")
        response.headers.update(HEADERS)
        return response(environ, start_response)

    def _answer(self, request: Request) -> Response:
        if not self.gate.lets_in(request):
            raise Forbidden
        name, arguments = self._routes.bind_to_environ(request.environ).match()
        if self.gate.shows_token(request):
            return self._with_cookie(request)
        pages: dict[str, Callable[..., Response]] = {"runs": self._runs, "run": self._run, "compare": self._compare}
        return pages[name](request, **arguments)

    def _with_cookie(self, request: Request) -> Response:
        """The same address without the token, which then lies in no history and no link."""
        rest = [(key, value) for key, value in request.args.items(multi=True) if key != "token"]
        response = redirect(_address(request.path, rest), 303)
        response.set_cookie(COOKIE, self.gate.token or "", httponly=True, samesite="Strict")
        return response

    def _runs(self, request: Request) -> Response:
        runs, left_out = runs_below(self.root)
        lines = listed(runs)
        body = fragment("runs.html", root=self.root, runs=lines, most=MOST, left_out=left_out, day=day)
        return _html(document("Runs", body, look(), scripts(), live=True))

    def _run(self, request: Request, name: str) -> Response:
        path = self._found([name])[name]
        return self._unless_known(
            request, [path], lambda: run_page(RunFacts.of(path, self._cache), live=True, above=BACK)
        )

    def _compare(self, request: Request) -> Response:
        names = list(dict.fromkeys(request.args.getlist("run")))
        if not 2 <= len(names) <= MOST:
            raise BadRequest
        runs = self._found(names)
        return self._unless_known(
            request, list(runs.values()), lambda: comparison_page(compared(runs, self._cache), BACK)
        )

    def _found(self, names: list[str]) -> dict[str, Path]:
        known, _ = runs_below(self.root)
        if missing := [name for name in names if name not in known]:
            raise NotFound(missing[0])
        return {name: known[name] for name in names}

    def _unless_known(self, request: Request, runs: list[Path], make: Callable[[], str]) -> Response:
        """The page, or 304 where the browser has it as it is."""
        tag = _tag(runs)
        if tag in request.if_none_match:
            return Response(status=304, headers={"ETag": f'"{tag}"'})
        with self._one_at_a_time:
            response = _html(make())
        response.set_etag(tag)
        return response


def _html(text: str) -> Response:
    return Response(text, mimetype="text/html")


def _address(path: str, arguments: list[tuple[str, str]]) -> str:
    return quote(path) + ("?" + urlencode(arguments) if arguments else "")


def _tag(runs: list[Path]) -> str:
    """What changes when a page of these runs would."""
    seen: list[Any] = []
    for run in runs:
        record = RunDirectory(run).record()
        if record is None or record.status == "running":
            seen.append(int(time.time() / LIVES))
        for name in WATCHED:
            try:
                status = (run / name).stat()
            except OSError:
                continue
            seen.append((str(run), name, status.st_mtime_ns, status.st_size))
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:20]
