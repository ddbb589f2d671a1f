"""The memory that recipes for cards say they take."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from support import bitsandbytes_stub

from lun.config.reading.presets import presets
from lun.memory.command import run

ROOT = Path(__file__).parents[2]
CARDS = {preset.name: preset for preset in presets(ROOT) if re.match(r"\d+gb", preset.name)}
STATED = re.compile(r"# Peak: (.*) GiB")


def stated(card: str) -> Mapping[str, float]:
    """{model: GiB} as the recipe's file says it."""
    found = STATED.search((ROOT / "configs/options" / f"{card}.yaml").read_text("utf-8"))
    assert found, card
    return {name: float(size) for name, size in (entry.split() for entry in found[1].split(", "))}


@pytest.mark.parametrize("card", CARDS)
def test_a_recipe_says_what_each_of_its_models_takes_and_leaves_a_gibibyte(card: str) -> None:
    assert stated(card).keys() == set(CARDS[card].fits)
    size = int(card.partition("gb")[0])
    assert all(peak + 1 <= size for peak in stated(card).values())


def test_the_page_shows_the_same_numbers() -> None:
    page = (ROOT / "docs/hardware.md").read_text("utf-8")
    rows = [[cell.strip(" `") for cell in row.split("|")[1:-1]] for row in page.splitlines() if row.startswith("| ")]
    shown = {(row[0], row[1]): float(row[2]) for row in rows if row[0] in CARDS}
    assert shown == {(card, model): peak for card in CARDS for model, peak in stated(card).items()}


@pytest.mark.slow
@pytest.mark.parametrize(("card", "model"), [(card, model) for card in CARDS for model in CARDS[card].fits])
def test_what_a_recipe_says_is_what_is_predicted(
    card: str, model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    bitsandbytes_stub.install(monkeypatch)
    assert run(["--base", model, card]) == 0
    told = re.search(r"^peak +([\d.]+) GiB", capsys.readouterr().out, re.MULTILINE)
    assert told and float(told[1]) == stated(card)[model]


def test_the_command_tells_the_peak(capsys: pytest.CaptureFixture[str]) -> None:
    tiny = str(ROOT / "tests/fixtures/tiny.yaml")
    assert run(["--base", tiny, "--precision", "bf16-mixed"]) == 0
    shown = capsys.readouterr().out
    told = [line.split()[0] for line in shown.splitlines() if not line.startswith("note:")]
    assert told == ["peak", "stays", "peaks", "average"]
    assert run(["--base", tiny, "compile"]) == 0
    assert "\nbesides  compiled blocks are counted as they are written" in capsys.readouterr().out
    assert run(["--base", tiny, "model.params.nothing=1"]) == 2
    assert run(["data.params.batch_size=1"]) == 2
    assert "--base is needed" in capsys.readouterr().err
