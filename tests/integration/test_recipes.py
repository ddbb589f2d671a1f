"""Each recipe of docs/recipes.md: its line has no faults as it stands, and it trains what it says at a tiny size."""

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.pages import ROOT, commands, named_files
from support.runs import TINY, make_pictures, newest_run

from lun.pack.command import run as pack
from lun.trainer import run

PAGE = ROOT / "docs/recipes.md"
FILES = named_files(PAGE)
LINES = {line.number: line.words[2:] for line in commands(PAGE) if line.line.startswith("python main.py")}
TRAINS = {
    "style.yaml": {"UNet"},
    "character.yaml": {"UNet"},
    "concept.yaml": {"UNet"},
    "v.yaml": {"UNet"},
    "masks.yaml": {"UNet"},
    "decoder.yaml": {"decoder"},
    "words.yaml": {"text encoder"},
    "tagged.yaml": {"UNet"},
    "mixed.yaml": {"UNet"},
    "eight.yaml": {"UNet"},
}
"""The networks in which something trains, by the file of a recipe."""
PRESETS = {path.stem: path for name in ("models", "options") for path in (ROOT / "configs" / name).glob("*.yaml")}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page shows, and pictures under the names that its lines have."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    pictures = make_pictures(tmp_path / "DIR", 12)
    (pictures / "mask").symlink_to(pictures / "img")
    for name in ("DIR1", "DIR2"):
        (tmp_path / name).symlink_to(pictures)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUN_THREADS", "1")
    return tmp_path


@pytest.mark.parametrize("number", LINES)
def test_a_line_has_no_faults_as_it_stands(number: int, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = LINES[number]
    assert words[-1] == "-t" and run([*words[:-1], "--check"]) == 0, capsys.readouterr().err


def bases(words: list[str]) -> list[str]:
    at = words.index("--base") + 1
    return words[at : next(i for i, word in enumerate(words) if i >= at and word.startswith("-"))]


def small(value: Any) -> Any:
    """The same settings for pictures of 8 pixels and a sampler of one step."""
    if not isinstance(value, dict):
        return value
    sizes = {"size": 8, "resolutions": [8]}
    found = {name: sizes.get(name, small(one)) for name, one in value.items()}
    drawn = found.get("target") == "lun.callbacks.ImageLogger"
    return found | {"params": found["params"] | {"log_images_kwargs": {"ddim_steps": 1}}} if drawn else found


def tiny_line(words: list[str], place: Path) -> list[str]:
    """The line over a tiny model: cards and models left out but for what a model adds, and its own file made small."""
    named = bases(words)
    encoder = any("training-encoder" in name for name in named)
    base = yaml.safe_load((TINY.with_name("tiny-autoencoder.yaml") if encoder else TINY).read_text("utf-8"))
    del base["model"]["base_learning_rate"], base["model"]["params"]["ema_config"]  # for options to set
    base["model"]["params"].pop("cond_stage_trainable", None)
    layers, more = [small_file(place, "base.yaml", base)], ["data.params.num_workers=0"]
    for name in named:
        if name in FILES:
            layers.append(small_file(place, name, yaml.safe_load(FILES[name])))
        elif name in PRESETS and PRESETS[name].parent.name == "models":
            layer = yaml.safe_load(PRESETS[name].read_text("utf-8"))
            kept = {key: one for key, one in layer["model"]["params"].items() if key in ("mask", "unet_config")}
            if name.startswith("sd15"):
                layers.append(small_file(place, f"model-{name}.yaml", {"model": {"params": kept}}))
        elif name in PRESETS and "# Peak" not in PRESETS[name].read_text("utf-8") and name != "bf16":
            layers.append(str(PRESETS[name]))
    if "buckets" in named:
        more.append("data.params.buckets.step=8")
    roots = [word for flag, word in pairwise(words) if flag == "--data_root"]
    return [
        *("--base", *layers, "--logdir", str(place / "logs"), *more, "lightning.trainer.max_steps=2"),
        *(word for root in roots for word in ("--data_root", root)),
        "-t",
    ]


def small_file(place: Path, name: str, layer: dict[str, Any]) -> str:
    path = place / f"small-{name}"
    path.write_text(yaml.safe_dump(small(layer)))
    return str(path)


@pytest.mark.parametrize("file", FILES)
def test_a_recipe_trains_at_a_tiny_size_what_it_is_for(file: str, place: Path, capfd: pytest.CaptureFixture) -> None:
    (words,) = [words for words in LINES.values() if file in words]
    if file == "tagged.yaml":
        assert pack(["DIR", "-o", "PACKED"]) == 0
    assert run(tiny_line(words, place)) == 0, capfd.readouterr().err[-3000:]
    made = newest_run(place / "logs")
    rows = [json.loads(line) for line in (made / "metrics.jsonl").read_text().splitlines()]
    assert max(row["step"] for row in rows) == 2
    networks = json.loads((made / "trains.json").read_text())["networks"]
    assert {network["name"] for network in networks if network["trained"]} == TRAINS[file]


def test_there_is_a_recipe_for_each_thing_that_people_come_for_with_its_file_and_line() -> None:
    text = PAGE.read_text("utf-8")
    chapters = re.split(r"^## .*$", text, flags=re.MULTILINE)[1:]
    assert len(chapters) == len(FILES) == len(TRAINS) == 10
    for chapter in chapters:
        (name,) = re.findall(r"^# ([\w-]+\.yaml)$", chapter, flags=re.MULTILINE)
        assert re.search(rf"^python main\.py --base .*{re.escape(name)} ", chapter, flags=re.MULTILINE)


def test_every_other_line_of_the_page_is_typed_by_another_pages_test() -> None:
    elsewhere: set[str] = set()
    found: Callable[[Path], list[str]] = lambda page: [" ".join(line.words) for line in commands(page)]  # noqa: E731
    for name in ("docs/datasets.md", "lun/convert/README.md", "docs/safety.md"):
        elsewhere |= set(found(ROOT / name))
    assert [line for line in found(PAGE) if not line.startswith("python main.py") and line not in elsewhere] == []
