"""`python -m lun.publish`: sends only when asked to, private unless told otherwise."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from ldm.convert.model_card import ModelCard
from lun.publish import hub_upload
from lun.publish.command import run


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def send(files: dict[str, Path], *rest: Any) -> str:
        calls.append((sorted(files), *rest))
        return "https://hub.example/org/a"

    monkeypatch.setattr(hub_upload, "send", send)
    return calls


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "a.safetensors"
    save_file({"weight": torch.zeros(2)}, path)
    ModelCard("---\n# license: FILL IN\n---\n# A\n").beside(path)
    return str(path)


FILES = ["README.md", "a.safetensors"]


def test_a_dry_run_shows_what_would_go_and_sends_nothing(
    file: str, sent: list[tuple[Any, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([file, "org/a", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert sent == [] and "nothing was sent" in told and "org/a, private" in told
    assert all(f"file     {name} (" in told for name in FILES) and "in 2 files" in told


def test_it_is_private_unless_it_is_asked_to_be_public(file: str, sent: list[tuple[Any, ...]]) -> None:
    assert run([file, "org/a"]) == 0 and run([file, "org/a", "--update"]) == 0
    card = Path(file).with_suffix(".md")
    card.write_text(card.read_text().replace("# license: FILL IN", "license: mit"))
    assert run([file, "org/a", "--public"]) == 0
    message = "Weights of a.safetensors"
    assert sent == [
        (FILES, "org/a", True, False, message),
        (FILES, "org/a", True, True, message),
        (FILES, "org/a", False, False, message),
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--public"], 4, "names no licence"),
        (["--public", "--update"], 2, "no effect beside --update"),
        (["--pubic"], 2, "error[CLI03]"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_is_sent(
    words: list[str], code: int, said: str, file: str, sent: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([file, "org/a", *words]) == code
    assert said in capsys.readouterr().err and sent == []
