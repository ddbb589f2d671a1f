"""Who may ask the server: this machine's browser, or whoever has the token."""

from __future__ import annotations

import hmac
import os
import secrets

from werkzeug.wrappers import Request

from ldm.errors import Fault

VARIABLE = "LUN_BOARD_TOKEN"
COOKIE = "lun_board"
SHORTEST = 16
HERE = ("127.0.0.1", "localhost")


class Gate:
    """Lets requests through that name this machine as their host; with a token, those alone that show it.

    A page of another site, whose name somebody lets point to this machine, has its own name as host and is not served.
    """

    def __init__(self, token: str | None) -> None:
        self.token = token

    def lets_in(self, request: Request) -> bool:
        """Whether to answer a request."""
        if self.token is None:
            return request.host.rpartition(":")[0] in HERE or request.host in HERE
        return self.shows_token(request) or self._same(request.cookies.get(COOKIE, ""))

    def shows_token(self, request: Request) -> bool:
        """Whether its address has the token, which then becomes a cookie."""
        return self.token is not None and self._same(request.args.get("token", ""))

    def _same(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (self.token or "").encode())


def drawn_token() -> str:
    """The token of `LUN_BOARD_TOKEN`, else a new one. Raises `Fault` CLI03 for one that can be guessed."""
    given = os.environ.get(VARIABLE)
    if given is None:
        return secrets.token_urlsafe(SHORTEST)
    if len(given) < SHORTEST:
        what = f"the token of {VARIABLE} has {len(given)} characters"
        raise Fault("CLI03", what, where=VARIABLE, fix=f"{SHORTEST} or more; without the variable one is drawn")
    return given
