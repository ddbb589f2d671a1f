"""Documents that stand alone and run no code but their own."""

import base64
import hashlib
import re

import pytest
from PIL import Image
from support.run_folder import Page

from lun.pages.document import ASSETS, asset, data_url, document


def policy(html: str) -> str:
    return next(a["content"] or "" for a in Page(html).attributes("meta") if "http-equiv" in a)


def test_a_document_has_its_title_escaped_and_its_body_as_it_is():
    html = document("<b>&", "<main>here</main>")
    assert "<title>&lt;b&gt;&amp;</title>" in html and "<main>here</main>" in html
    assert Page(html).unbalanced == []


def test_only_the_scripts_that_were_given_may_run():
    script = "let a = 1 < 2;"
    html = document("t", "<script>evil()</script>", scripts=[script])
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy(html)
    assert script in [text for _, text in Page(html).scripts]
    assert "script-src 'none'" in policy(document("t", ""))


def test_a_document_asks_for_nothing_unless_a_server_made_it():
    assert "default-src 'none'" in policy(document("t", "")) and "connect-src 'none'" in policy(document("t", ""))
    assert "connect-src 'self'" in policy(document("t", "", live=True))


def test_a_picture_becomes_a_url_of_its_kind():
    assert data_url(Image.new("RGB", (4, 4))).startswith("data:image/jpeg;base64,")
    assert data_url(Image.new("RGB", (4, 4)), "PNG").startswith("data:image/png;base64,")


def test_what_others_made_is_what_its_notice_says():
    told = dict(re.findall(r"sha256 of (\S+): ([0-9a-f]{64})", (ASSETS / "NOTICE").read_text("utf-8")))
    assert told == {name: hashlib.sha256((ASSETS / name).read_bytes()).hexdigest() for name in told}
    assert {path.name for path in ASSETS.iterdir()} == {*told, "NOTICE", "look.css", "compare.css", "run.css", "run.js"}


@pytest.mark.parametrize("name", [path.name for path in ASSETS.iterdir() if path.suffix in (".css", ".js")])
def test_no_asset_ends_the_element_that_holds_it_or_fetches_anything(name):
    text = asset(name)
    assert "</script" not in text and "</style" not in text
    assert "@import" not in text and "url(" not in text.replace("data:", "")
