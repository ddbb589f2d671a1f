"""Where annotations go: beside pictures as their layout reads them, and never over what is there."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.board import put_board
from support.runs import make_pictures

from ldm.errors import Fault
from lun.annotate.annotated_folder import AnnotatedFolder
from lun.annotate.description_file import DescriptionFile
from lun.annotate.outputs import MaskFiles, TextFiles, write_new
from lun.data.local import Local


def folder_of(root: Path, **params) -> AnnotatedFolder:
    return AnnotatedFolder(Local(str(root), size=8, allow_empty_captions=True, **params))


def picture(path: Path, number: int = 0, size: tuple[int, int] = (12, 8)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


LAYOUTS = {
    "flat with folders": (["img/a.png", "img/b.png"], ["txt/b.txt"], "txt/a.txt"),
    "flat in one": (["a.png", "b.png"], ["b.txt"], "a.txt"),
    "side by side": (["x/a.png", "y/b.png"], ["y/b.txt"], "x/a.txt"),
    "kohya": (["3_cat/a.png", "3_cat/b.png"], ["3_cat/b.txt"], "3_cat/a.txt"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_caption_lies_where_its_layout_looks_for_it(tmp_path: Path, layout: str) -> None:
    pictures, texts, expected = LAYOUTS[layout]
    for number, name in enumerate(pictures):
        picture(tmp_path / name, number)
    for name in texts:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("b's own")
    output = TextFiles(folder := folder_of(tmp_path))
    assert [output.has(index, "") for index in range(2)] == [False, True]
    output.add([(0, "", {"tags": ["long hair", "^_^"]})])
    assert (tmp_path / expected).read_text() == "long hair, ^_^\n"
    read = Local(str(tmp_path), size=8)
    assert [read.caption(index) for index in range(len(read))] == ["long hair, ^_^", "b's own"] and len(folder) == 2


def test_what_killed_processes_left_is_swept_away(tmp_path: Path) -> None:
    picture(tmp_path / "img" / "a.png")
    gone = 2**22 + 1  # no process has such a number
    for name in (f"img/.a.txt.tmp-{gone}-0f", f"mask/img/.a.png.tmp-{gone}-0f", "img/.mine"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"half")
    for output in (TextFiles(folder_of(tmp_path)), MaskFiles(folder_of(tmp_path))):
        output.finish()
    assert [path.name for path in sorted(tmp_path.rglob("*")) if path.is_file()] == [".mine", "a.png"]


@pytest.mark.parametrize("columns", [{"caption": " \n"}, {"tags": []}])
def test_no_words_make_no_file(tmp_path: Path, columns: dict) -> None:
    picture(tmp_path / "a.png")
    output = TextFiles(folder_of(tmp_path))
    output.add([(0, "", columns)])
    assert "warning[DAT04]: 1 pictures got no words" in output.finish()[1]
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_a_file_that_is_there_stays_and_nothing_hidden_is_left(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("mine")
    assert write_new(tmp_path / "a.txt", b"theirs") is False
    assert write_new(tmp_path / "b" / "c.txt", b"new") is True
    assert (tmp_path / "a.txt").read_text() == "mine" and (tmp_path / "b" / "c.txt").read_text() == "new"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.txt", "b", "c.txt"]


def test_masks_have_the_size_of_their_pictures_and_are_read_as_masks(tmp_path: Path) -> None:
    for number, name in enumerate(("img/a.png", "img/b.png")):
        picture(tmp_path / name, number, (16, 16))
    picture(tmp_path / "mask" / "img" / "b.png", 3, (16, 16))
    output = MaskFiles(folder_of(tmp_path))
    assert [output.has(index, "") for index in range(2)] == [False, True]
    output.add([(0, "", {"mask": Image.new("L", (4, 4), 255)})])
    read = Local(str(tmp_path), size=16, flip_p=0, crop=False, mask="folder", allow_empty_captions=True)
    masks = [read.picture(index, False)["mask"] for index in range(2)]
    assert masks[0].shape == (16, 16) and masks[0].float().min() == masks[0].float().max() > 0
    assert masks[1].float().std() > 0


def board(root: Path) -> Path:
    records = {"0": {"path": "0.png", "tags": ["x"], "score": 3, "repeats": 2}, "1": {"path": "1.png", "text": "one"}}
    return put_board(root, records)


def test_a_description_has_all_that_was_known_and_is_read_as_it_stands(tmp_path: Path) -> None:
    root = board(tmp_path / "set")
    folder = folder_of(root)
    output = DescriptionFile(root / "metadata.jsonl", folder, {}, ["score"])
    places = {folder.name(index): index for index in range(2)}
    assert output.has(places["0.png"], "k0") is True
    assert output.has(places["1.png"], "k1") is False
    output.add([(places["1.png"], "k1", {"score": 7.5})])
    output.finish()
    rows = [json.loads(line) for line in (root / "metadata.jsonl").read_text().splitlines()]
    assert sorted(rows, key=lambda row: row["file_name"]) == [
        {"file_name": "0.png", "repeats": 2, "tags": ["x"], "score": 3.0},
        {"file_name": "1.png", "text": "one", "score": 7.5},
    ]
    read = Local(str(root), size=8, layout="imagefolder", metadata_params={"min_score": 5})
    assert [read.name(index) for index in range(len(read))] == ["1.png"]
    assert not (root / "metadata.jsonl.part").exists()


def test_a_description_that_is_there_is_refused_or_kept_under_another_name(tmp_path: Path) -> None:
    root = board(tmp_path / "set")
    (root / "metadata.jsonl").write_text("{}\n")
    with pytest.raises(Fault, match="CLI04") as caught:
        DescriptionFile(root / "metadata.jsonl", folder_of(root), {}, ["score"])
    assert "--merge" in caught.value.fix
    output = DescriptionFile(root / "metadata.jsonl", folder_of(root), {}, ["score"], merge=True)
    said = output.finish()
    assert "the former one is metadata.jsonl.before-1" in said[0]
    assert (root / "metadata.jsonl.before-1").read_text() == "{}\n"
    assert len((root / "metadata.jsonl").read_text().splitlines()) == 2


def test_replace_tells_anew_what_is_known(tmp_path: Path) -> None:
    root = make_pictures(tmp_path / "set", 1)
    output = DescriptionFile(root / "new.jsonl", folder_of(root), {}, ["caption"], replace=True)
    assert output.has(0, "k") is False
    output.add([(0, "k", {"caption": "better"})])
    assert output.has(0, "k") is True
    output.finish()
    assert json.loads((root / "new.jsonl").read_text()) == {"file_name": "img/000.png", "text": "better"}
    assert (root / "txt" / "000.txt").read_text() == "red noise 0\n"


def test_rows_begun_by_another_annotator_are_not_gone_on_with(tmp_path: Path) -> None:
    root = board(tmp_path / "set")
    DescriptionFile(root / "m.jsonl", folder_of(root), {"files": {"model": 5}}, ["score"])._open.close()
    with pytest.raises(Fault, match="was begun by another annotator"):
        DescriptionFile(root / "m.jsonl", folder_of(root), {"files": {"model": 6}}, ["score"])


def test_a_kill_at_any_byte_leaves_whole_rows_alone(tmp_path: Path) -> None:
    root = board(tmp_path / "set")
    folder = folder_of(root)
    output = DescriptionFile(root / "m.jsonl", folder, {}, ["score"])
    output.add([(0, "k0", {"score": 1.0}), (1, "k1", {"score": 2.0})])
    output._open.close()
    content = output.part.read_bytes()
    for length in range(len(content) + 1):
        output.part.write_bytes(content[:length])
        found = DescriptionFile(root / "m.jsonl", folder, {}, ["score"])
        found._open.close()
        assert list(found.rows) == ["k0", "k1"][: max(0, content[:length].count(b"\n") - 1)]
        assert output.part.read_bytes().endswith(b"\n")
