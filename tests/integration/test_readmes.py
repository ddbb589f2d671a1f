"""What pages say besides commands: options of other trainers, links, examples of code."""

import re
import runpy
import shlex
import sys
import types
from pathlib import Path

import pytest
import torch
from support import bitsandbytes_stub
from support.pages import PAGES, ROOT, unquoted

from ldm.diffusion.draws import Draws
from lun.cli import parser
from lun.data.keyed import Keyed
from lun.other_trainers.programs import OTHERS
from lun.trainer import run


def fragments() -> list[str]:
    """What the right column of the migration page puts behind a command."""
    rows = [line for line in (ROOT / "docs/migration.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", row)[2].replace("\\|", "|") for row in rows]
    spans = [span for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    return [span for span in spans if span.startswith("-") or re.match(r"'?[a-z_.]+=", span)]


def test_the_options_of_other_trainers_have_the_counterparts_that_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    bitsandbytes_stub.install(monkeypatch)
    shown = fragments()
    assert len(shown) > 60
    for span in shown:
        assert not unquoted(span), f"{span}: a shell would take {unquoted(span)} for something else"
        parser.parse(shlex.split(span))
    made = runpy.run_path(str(ROOT / "scripts/make_migration.py"))
    rows = [row for other in OTHERS.values() for row in (other, *other.choices.values())]
    answers = {span for row in rows for span in made["spans"](row)}  # tried where they are given as answers
    shown = list(dict.fromkeys(span for span in shown if span not in answers))
    plain = [span for span in shown if not span.startswith(("--base", "-r", "--data_root"))]
    commands = [shlex.split(span) for span in shown if span.startswith("--base")]
    commands += [["--base", "sd15", "buckets", "min-snr", *(word for span in plain for word in shlex.split(span))]]
    for words in commands:
        assert run([*words, "--data_root", "configs/demo/data/train", "--check"]) == 0, capsys.readouterr().err


def anchors(page: Path) -> set[str]:
    """What a link into a page may name: its headings, in lower case with dashes."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_a_link_leads_somewhere(path: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", path.read_text("utf-8")):
        page = path.parent / target if target else path
        assert page.exists(), target
        assert not anchor or anchor in anchors(page), f"{target}#{anchor}"


def settings_in_prose() -> list[str]:
    """`model.params.x=1` within sentences of pages; what stands for a value, as FILE does, is no setting yet."""
    pages = [path for path in PAGES if path.name not in ("CHANGELOG.md", "migration.md", "KEYS.md")]
    text = "\n".join(re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL) for path in pages)
    spans = dict.fromkeys(re.findall(r"`('?(?:model|data|lightning)(?:\.\w+)+=[^`]+)`", text))
    return [span for span in spans if not re.search(r"=[A-Z]+$|\.\.\.", span)]


def test_each_setting_that_a_sentence_names_is_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    left = settings_in_prose()
    assert len(left) > 20
    assert [span for span in left if len(shlex.split(span)) > 1 and unquoted(span)] == []
    words = [word for span in left for word in shlex.split(span)]
    for base in (["sd15", "compile"], ["first-stage"]):
        code = run(["--base", *base, *words, "--data_root", "configs/demo/data/train", "--check"])
        faults = capsys.readouterr().err
        words = [word for word in words if f"({word})" in faults]
        assert bool(words) == bool(code), faults
    assert words == []


def show_colours(monkeypatch: pytest.MonkeyPatch) -> type:
    """The dataset of lun's README, importable under the name that its command uses."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "lun/README.md").read_text("utf-8"), flags=re.DOTALL)
    module = types.ModuleType("lun.local.colours")
    exec(compile(code, "lun/README.md", "exec"), vars(module))
    monkeypatch.setitem(sys.modules, "lun.local", types.ModuleType("lun.local"))
    monkeypatch.setitem(sys.modules, "lun.local.colours", module)
    found: type = module.Colours
    return found


def test_the_example_of_a_dataset_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed = Keyed(show_colours(monkeypatch)(size=4), seed=0)
    example = keyed[(9, 4)]
    assert example["caption"] == "red" and example["image"].shape == (4, 4, 3) and example["slot"] == 9
    assert torch.equal(example["image"], keyed.dataset.example(4, Draws(0, 9))["image"])
    assert torch.equal(keyed[(9, 4)]["image"], example["image"])


def test_short_names_of_configs_are_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    assert run(["--base", "training-lightning", "emoji", "--check"]) == 0, capsys.readouterr().err


def test_the_first_readme_is_a_door(repo_root: Path) -> None:
    text = (repo_root / "README.md").read_text("utf-8")
    assert text.count("\n") <= 150
    assert "bash scripts/demo.sh" in text and "bash scripts/test.sh" in text
