"""The page of a run in a real browser: where playwright and a Chromium are installed (`pip install playwright`)."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.run_folder import add_samples, log_metrics, make_run

from lun.board.runs_below import runs_below
from lun.board.side_by_side import compared, comparison_page
from lun.report.run_page import write_page
from lun.report.sample_tiles import TileCache

PATIENCE = 120_000
"""Milliseconds for a page to load: other programs may keep the machine busy."""
EVIL = "</script><img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
UNREADABLE = """() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const [x, y, z] = [r, g, b].map((one) => linear(one / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = numbers(getComputedStyle(one).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const box = element.getBoundingClientRect();
    if (!own || !box.width || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION"].includes(element.tagName)) continue;
    const [a, b] = [light(numbers(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05), size = parseFloat(getComputedStyle(element).fontSize);
    const what = [element.className || element.tagName, contrast.toFixed(2), size, element.textContent.slice(0, 30)];
    if (contrast < 4.5 || size < 9) found.push(what);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium; the test is skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with api.sync_playwright() as started:
        if chromium is None and not Path(started.chromium.executable_path).exists():
            pytest.skip("no Chromium: apt-get install chromium, or playwright install chromium")
        launched = started.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def page_of_a_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = make_run(tmp_path_factory.mktemp("logs") / "run")
    add_samples(run, 150, "raw", prompts=(EVIL, "a frog"))
    log_metrics(run, {step: {"val/loss": 0.1, "lr_abs": 1e-5, EVIL: -1.0} for step in range(110, 151, 10)})
    with (run / "console.log").open("a") as log:
        log.write(f"2026-11-20 11:13:02,001 WARNING {EVIL}\n")
    return write_page(run, TileCache())


def opened(browser: Any, path: Path, width: int, colours: str) -> tuple[Any, list[str]]:
    """The page in a window of that width, and what its console says."""
    said: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=colours)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: request.url.startswith(("file:", "data:")) or said.append(request.url))
    page.set_default_timeout(PATIENCE)
    page.goto(path.as_uri())
    return page, said


@pytest.mark.parametrize("width, colours", [(390, "dark"), (390, "light"), (1280, "dark"), (1280, "light")])
def test_the_page_is_legible_on_a_phone_and_in_the_dark(
    browser: Any, page_of_a_run: Path, width: int, colours: str
) -> None:
    page, said = opened(browser, page_of_a_run, width, colours)
    assert said == [] and page.title() == "run"
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(UNREADABLE) == []
    assert page.locator(".plot canvas").count() == page.locator(".plot").count() > 2


def test_sliders_and_switches_change_what_is_shown(browser: Any, page_of_a_run: Path) -> None:
    page, said = opened(browser, page_of_a_run, 1000, "light")
    image = page.locator(".prompt img").first
    last = image.get_attribute("src")
    page.locator("#step").fill("0")
    assert image.get_attribute("src") != last or image.evaluate("one => one.style.visibility") == "hidden"
    assert page.locator("#step-out").inner_text() == "0"
    drawn = page.locator(".plot canvas").first.evaluate("one => one.toDataURL()")
    page.locator("#log").check()
    assert page.locator(".plot canvas").first.evaluate("one => one.toDataURL()") != drawn
    page.locator("#films").check()
    assert page.locator(".film img").count() > 4 and said == []


def test_runs_side_by_side_draw_without_a_word_on_the_console(browser: Any, tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_run(tmp_path / "logs" / name)
    path = tmp_path / "page.html"
    path.write_text(comparison_page(compared(runs_below(tmp_path / "logs")[0], TileCache())))
    page, said = opened(browser, path, 390, "dark")
    assert said == [] and page.locator(".plot canvas").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0 and page.evaluate(UNREADABLE) == []
