"""HTML documents that stand alone: one shell for all, templates that escape, styles and scripts inside the file."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

if TYPE_CHECKING:
    from PIL import Image

ASSETS = Path(__file__).parent / "assets"
TEMPLATES = Path(__file__).parent / "templates"


def document(title: str, body: str, look: str = "", scripts: Sequence[str] = (), live: bool = False) -> str:
    """A whole page. `body` is HTML already; `title` is not.

    look      CSS beside `look.css`, which every page has
    scripts   JavaScript, in this order at the end; no other code of the page runs, whatever stands in its body
    live      a server made it, which the scripts may ask again; otherwise nothing is ever fetched
    """
    return (
        _environment()
        .get_template("document.html")
        .render(
            title=title,
            body=Markup(body),
            styles=[Markup(asset("look.css")), *([Markup(look)] if look else [])],
            scripts=[Markup(script) for script in scripts],
            policy=_policy(scripts, live),
            live=live,
        )
    )


def fragment(template: str, **values: Any) -> Markup:
    """A template of `templates/`, filled in; every value is escaped unless it is `Markup`."""
    return Markup(_environment().get_template(template).render(**values))


@cache
def asset(name: str) -> str:
    """The text of a file of `assets/`."""
    return (ASSETS / name).read_text("utf-8")


def data_url(image: Image.Image, kind: str = "JPEG") -> str:
    """A picture to stand inside a page; `kind` is JPEG, or PNG for one of few pixels."""
    buffer = io.BytesIO()
    image.save(buffer, kind, **({"quality": 82} if kind == "JPEG" else {}))
    return f"data:image/{kind.lower()};base64," + base64.b64encode(buffer.getvalue()).decode()


def _policy(scripts: Sequence[str], live: bool) -> str:
    """What a browser may do with a page (Content Security Policy): run these scripts and show what is inside."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    asked = "'self'" if live else "'none'"  # of its own server, or of nobody
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; connect-src {asked};"
        f" base-uri 'none'; form-action {asked}"
    )


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
