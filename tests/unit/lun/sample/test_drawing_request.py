"""The words that `lun.sample` and `lun.compare` share are settled alike, before anything heavy is imported."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lun.compare.command import run as compare
from lun.sample.arguments import parse
from lun.sample.command import run as sample
from lun.sample.drawing_request import DrawingRequest


@pytest.mark.parametrize("command", [sample, compare])
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["m.safetensors", "--prompts", "none.txt"], 2, "error[CFG01]: prompts file not found: none.txt"),
        (["m.safetensors", "--text-encoder", "t5"], 2, "--text-encoder takes NAME=FILE"),
        (["m.safetensors", "--family", "nobody"], 2, "nobody"),
        (["m.safetensors"], 4, "error[MOD01]"),
        (["--help"], 0, ""),
        ([], 0, ""),
    ],
)
def test_both_commands_refuse_the_same_words(
    command: Callable[[list[str]], int],
    words: list[str],
    code: int,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command(words) == code
    seen = capsys.readouterr()
    assert told in seen.err and seen.err.count("error[") == (code > 0)
    assert ("usage:" in seen.out) == (code == 0)


def test_prompts_and_encoders_are_read_from_their_options(tmp_path: Path) -> None:
    (tmp_path / "m.safetensors").touch()
    (tmp_path / "p.txt").write_text("a fox\na cat --s 5\n")
    words = [str(tmp_path / "m.safetensors"), "--prompts", str(tmp_path / "p.txt"), "--text-encoder", "t5=null"]
    asked = parse(words)
    request = DrawingRequest.of(asked, [asked.source])
    assert [prompt.text for prompt in request.prompts] == ["a fox", "a cat"]
    assert request.encoders == {"t5": None}
