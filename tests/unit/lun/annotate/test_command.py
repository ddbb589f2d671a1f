"""`python -m lun.annotate`: annotators of one's own by the gate, and what is refused in one message."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support.board import put_board
from support.pages import ROOT, fenced
from support.runs import make_pictures

from lun.annotate.command import run

LOCAL = "lun.data.local.Local"
OWN = '''
class Named:
    """How wide pictures are."""

    columns = ("caption", "width_of")

    def __init__(self, word: str = "wide", times: int = 1) -> None:
        self.word, self.times = word, times

    def __call__(self, pictures):
        return [{"caption": f"{self.word} {one.width * self.times}", "width_of": one.width} for one in pictures]


class Text(Named):
    columns = ("caption",)


def function(pictures):
    return []
'''


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    root = make_pictures(tmp_path / "cats", 3)
    (root / "txt" / "001.txt").unlink()
    put_board(tmp_path / "board", {"0": {"path": "0.png", "tags": ["x"]}})
    (tmp_path / "mine.py").write_text(OWN)
    sets = {name: {"target": LOCAL, "params": {"data_root": "cats"}, "weight": 1} for name in ("cats", "dogs")}
    (tmp_path / "sets.yaml").write_text(yaml.safe_dump({"data": {"params": {"train": {"sets": sets}}}}))
    packed = {"target": "lun.data.packed.PackedSet", "params": {"data_root": "packed"}}
    (tmp_path / "packed.yaml").write_text(yaml.safe_dump({"data": {"params": {"train": packed}}}))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("mine", None)


def test_an_annotator_of_ones_own_goes_through_the_gate(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cats", "--with", "mine.Named", "--param", "word='very, very'", "times=2", "--batch", "2"]
    assert run(words) == 2
    assert "cannot load target mine.Named" in capsys.readouterr().err
    assert run([*words, "--allow", "mine"]) == 0
    said = capsys.readouterr().out
    assert "2 pictures annotated" not in said and "done     1 pictures annotated" not in said
    rows = {row["file_name"]: row for row in map(json.loads, (desk / "cats/metadata.jsonl").read_text().splitlines())}
    assert rows["img/001.png"] == {"file_name": "img/001.png", "text": "very, very 16", "width_of": 8}
    assert rows["img/000.png"] == {"file_name": "img/000.png", "text": "red noise 0", "width_of": 8}
    assert "note: width_of: training reads no such column" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--with", "caption"], "there is nothing to annotate"),
        (["cats"], "required: --with"),
        (["cats", "--with", "words"], "there is no annotator words"),
        (["cats", "--with", "caption"], "caption needs model"),
        (["cats", "--with", "os.system"], "cannot load target os.system"),
        (["cats", "--with", "torch.nn.Identity"], "torch.nn.Identity is no annotator"),
        (["cats", "--with", "mine.function", "--allow", "mine"], "mine.function is no annotator"),
        (["cats", "--with", "mine.Named", "--allow", "mine", "--param", "wort=a"], "takes no wort"),
        (["cats", "--with", "mine.Named", "--allow", "mine", "--model", "m"], "takes no model"),
        (["cats", "--with", "mine.Named", "--allow", "mine", "--param", "times=a"], "expected int"),
        (["cats", "--with", "mine.Named", "--allow", "mine", "--param", "times"], "--param takes KEY=VALUE, not times"),
        (["cats", "--with", "mine.Named", "--allow", "mine", "--param", "word=[1"], "is no YAML"),
        (["cats", "--with", "mine.Named", "--allow", "mine", "-o", "a.csv"], "-o takes a .jsonl file"),
        (["board", "--with", "mine.Text", "--allow", "mine"], "board has no caption files"),
        (["cats", "--with", "mine.Text", "--allow", "mine", "--replace"], "--replace has no effect here"),
        (["cats", "--with", "mine.Named", "--allow", "mine", "--batch", "0"], "--batch cannot be 0"),
        (["cats", "--with", "caption", "--model", "nowhere"], "nowhere is no folder with a model"),
        (["cats", "--with", "caption", "--model", "cats", "--device", "gpu"], "the device gpu cannot be used"),
        (["cats", "--with", "caption", "--model", "cats", "--param", "beams=0"], "param beams cannot be 0"),
        (["cats", "--with", "mask", "--model", "cats"], "mask needs text"),
        (["cats", "--with", "mask", "--model", "c", "--param", "text=a", "floor=2.0"], "param floor cannot be 2"),
        (["cats", "--with", "tag", "--model", "cats"], "there is no model.onnx in cats"),
        (["cats", "--with", "tag", "--model", "cats", "--param", "threshold=0.0"], "param threshold cannot be 0"),
        (["cats", "--with", "score", "--model", "c", "--param", "head=h", "label=a"], "label has no effect"),
        (["--base", "sets.yaml", "--with", "caption"], "--set cats or --set dogs"),
        (["--base", "packed.yaml", "--with", "mine.Named", "--allow", "mine"], "DAT13"),
        (["empty", "--with", "mine.Named", "--allow", "mine"], "DAT01"),
    ],
)
def test_bad_input_is_one_message(desk: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) in (2, 3, 4, 5)
    said = capsys.readouterr().err
    assert told in said and said.count("error[") == 1


def test_the_page_shows_an_annotator_that_works(desk: Path) -> None:
    (shown,) = [text for language, _, text in fenced(ROOT / "docs/datasets.md") if language == "python"]
    (desk / "lun" / "local").mkdir(parents=True)
    (desk / "lun" / "local" / "mine.py").write_text(shown)
    assert run(["cats", "--with", "lun.local.mine.Width"]) == 0
    assert json.loads((desk / "cats" / "metadata.jsonl").read_text().splitlines()[0])["score"] == 8


def test_one_of_several_sets_is_annotated(desk: Path) -> None:
    assert run(["--base", "sets.yaml", "--set", "dogs", "--with", "mine.Named", "--allow", "mine"]) == 0
    assert len((desk / "cats" / "metadata.jsonl").read_text().splitlines()) == 3


def test_a_packed_set_is_annotated_before_it_is_packed(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from lun.pack.command import run as pack

    assert pack(["cats", "-o", "packed"]) == 0
    capsys.readouterr()
    assert run(["--base", "packed.yaml", "--with", "mine.Named", "--allow", "mine"]) == 2
    assert "annotate the folder, then pack it" in capsys.readouterr().err
