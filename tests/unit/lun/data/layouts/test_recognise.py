"""Which layout a folder is taken for, what is read from it, and what happens to odd ones."""

import json
import logging
import os
import shutil
import sys
from pathlib import Path

import pytest
from PIL import Image
from support.board import put_board

from ldm.errors import Fault
from lun.data.local import Local


def put(root: Path, *names: str) -> Path:
    """Files below `root`: pictures for image names, the path as text for the others."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() in {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".avif", ".tif", ".tiff", ".gif"}:
            Image.new("RGB", (6, 4)).save(path)
        else:
            path.write_text(name)
    return root


def seen(root: Path, **params: object) -> tuple[str, dict[str, str]]:
    """(layout, path -> caption)"""
    data = Local(str(root), **params)
    return data.selection.contents.layout, {data.name(i): data.caption(i) for i in range(len(data))}


def fault(root: Path, **params: object) -> Fault:
    with pytest.raises(Fault) as caught:
        Local(str(root), **params)
    return caught.value


def lines(root: Path, name: str, *records: object) -> None:
    (root / name).write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in records))


def test_sidecars_are_found_at_any_depth(tmp_path):
    put(tmp_path, "a/b/1.png", "a/b/1.txt", "a/2.jpg", "a/2.caption", "3.png", "3.txt")
    assert seen(tmp_path) == ("sidecar", {"3.png": "3.txt", "a/2.jpg": "a/2.caption", "a/b/1.png": "a/b/1.txt"})


def test_a_txt_goes_before_a_caption_file(tmp_path):
    put(tmp_path, "a/1.png", "a/1.caption", "a/1.txt")
    assert seen(tmp_path)[1] == {"a/1.png": "a/1.txt"}


def test_sidecars_may_lie_in_a_folder_for_captions_at_any_depth(tmp_path):
    put(tmp_path, "cats/img/a.png", "cats/txt/a.txt", "dogs/images/b.png", "dogs/captions/b.txt")
    assert seen(tmp_path)[1] == {"cats/img/a.png": "cats/txt/a.txt", "dogs/images/b.png": "dogs/captions/b.txt"}


@pytest.mark.parametrize("root", ["", "img", "10_my cat"])
def test_kohya_folders_repeat_and_name_pictures_from_parent_or_leaf(tmp_path, root):
    put(tmp_path / "img" / "10_my cat" if root else tmp_path / "10_my cat", "a.png", "b.png", "b.txt")
    if root:
        data = Local(str(tmp_path / "img") if root == "img" else str(tmp_path / "img" / root))
    else:
        data = Local(str(tmp_path))
    assert data.selection.contents.layout == "kohya"
    assert data.repeats().tolist() == [10, 10]
    assert [data.caption(i) for i in range(2)] == ["my cat", "b.txt"]


def test_the_folder_above_that_of_kohya_will_do(tmp_path):
    put(tmp_path, "img/10_cat/a.png", "img/3_dog/b.png", "log/x.log")
    data = Local(str(tmp_path))
    assert (data.selection.contents.layout, data.repeats().tolist()) == ("kohya", [10, 3])


def test_a_year_is_no_number_of_repeats(tmp_path):
    put(tmp_path, "2021_holiday/a.png", "2021_holiday/a.txt")
    data = Local(str(tmp_path))
    assert (data.selection.contents.layout, data.repeats().tolist()) == ("sidecar", [1])


def test_metadata_jsonl_names_files_and_text(tmp_path):
    put(tmp_path, "a.png", "sub/b.png", "c.png")
    lines(
        tmp_path,
        "metadata.jsonl",
        {"file_name": "a.png", "text": "one"},
        {"file_name": "sub/b.png", "caption": "two"},
        {"file_name": "c.png", "prompt": ["three", "four"]},
    )
    assert seen(tmp_path) == ("imagefolder", {"a.png": "one", "sub/b.png": "two", "c.png": "three"})


def test_metadata_csv_does_the_same(tmp_path):
    put(tmp_path, "a.png", "b.png")
    (tmp_path / "metadata.csv").write_text('file_name,text,score\na.png,"one, two",5\nb.png,,7\n')
    assert seen(tmp_path) == ("imagefolder", {"a.png": "one, two"})
    assert Local(str(tmp_path)).table.score.tolist() == [5, 7]


def test_one_big_jsonl_may_have_tags_and_scores(tmp_path):
    put(tmp_path, "x/a.png", "x/b.png")
    lines(
        tmp_path, "posts.jsonl", {"path": "x/a.png", "tags": ["b", "a"], "score": 9}, {"path": "x/b.png", "tags": "c"}
    )
    assert seen(tmp_path) == ("jsonl", {"x/a.png": "a, b", "x/b.png": "c"})


def test_a_broken_line_is_counted_and_named(tmp_path):
    put(tmp_path, "a.png")
    lines(tmp_path, "posts.jsonl", {"path": "a.png", "text": "a"}, "{broken", "[1]", "", {"text": "no path"})
    steps = {step.name: step.count for step in Local(str(tmp_path)).selection.waterfall.steps}
    assert (steps["unreadable"], steps["no_path"]) == (2, 1)


def test_board_json_lies_at_any_depth(tmp_path):
    put_board(tmp_path, {"1": {"path": "i/a.png", "tags": ["x"]}, "q/w/e/2": {"path": "i/b.png", "tags": ["z", "y"]}})
    assert seen(tmp_path) == ("board", {"i/a.png": "x", "i/b.png": "y, z"})


def test_metadata_params_prefer_descriptions_to_captions(tmp_path):
    put(tmp_path, "images/a.png", "captions/a.txt")
    put_board(tmp_path, {"1": {"path": "images/a.png", "tags": ["x"]}})
    assert seen(tmp_path) == ("flat", {"images/a.png": "captions/a.txt"})
    assert seen(tmp_path, metadata_params={}) == ("board", {"images/a.png": "x"})


def test_a_layout_can_be_forced(tmp_path):
    put(tmp_path, "img/a.png", "txt/a.txt", "b.png", "b.txt")
    assert set(seen(tmp_path)[1]) == {"img/a.png"}
    assert set(seen(tmp_path, layout="sidecar")[1]) == {"b.png", "img/a.png"}


def test_a_forced_layout_that_is_not_there_says_what_was_looked_for(tmp_path):
    found = fault(put(tmp_path, "a.png", "a.txt"), layout="board")
    assert (found.id, found.why) == ("DAT03", "looked for .json files below metadata/")


@pytest.mark.parametrize("place", ["posts.parquet", "train/posts.parquet", "data/train-00000-of-00001.parquet"])
def test_parquet_without_its_library_says_how_to_get_it(tmp_path, monkeypatch, place):
    put(tmp_path, "a.png")
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found = fault(tmp_path)
    assert found.id == "DEP01"
    assert "-m pip install" in found.fix and found.fix.endswith(" pyarrow")


def test_every_format_is_read_in_any_case(tmp_path):
    names = ["a.avif", "b.tif", "c.TIFF", "d.gif", "e.JPEG"]
    put(tmp_path, *(f"x/{name}" for name in names), *(f"x/{name[0]}.txt" for name in names))
    data = Local(str(tmp_path), size=4)
    assert [data.name(i) for i in range(len(data))] == [f"x/{name}" for name in names]
    assert data.sizes().tolist() == [[6, 4]] * 5


def test_what_systems_leave_behind_is_skipped_and_counted(tmp_path, caplog):
    put(tmp_path, "a/1.png", "a/1.txt", "a/.2.png", "a/Thumbs.db", "a/@eaDir/1.png", ".git/3.png")
    with caplog.at_level(logging.INFO):
        assert set(seen(tmp_path)[1]) == {"a/1.png"}
    assert "captions beside images, 1 images in 1 folder, 3 hidden files skipped" in caplog.text


@pytest.mark.parametrize("path", ["/etc/passwd.png", "../out.png", "a/../../out.png", "..\\out.png", "C:/out.png"])
def test_a_path_in_metadata_never_leaves_the_folder(tmp_path, path):
    root = tmp_path / "set"
    put_board(root, {"1": {"path": "i/a.png", "tags": ["x"]}, "2": {"path": path, "tags": ["x"]}})
    put(tmp_path, "out.png")
    data = Local(str(root))
    assert data.names() == ["i/a.png"]
    assert {step.name: step.first for step in data.selection.waterfall.steps}["outside"] == path


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_in_metadata_never_leads_out_of_the_folder(tmp_path, link):
    root = tmp_path / "set"
    put(tmp_path, "secret/s.png")
    put_board(root, {"1": {"path": "i/a.png", "tags": ["x"]}, "2": {"path": "l/s.png", "tags": ["x"]}}, pictures=False)
    put(root, "i/a.png")
    if link == "folder":
        os.symlink(tmp_path / "secret", root / "l")
    else:
        (root / "l").mkdir()
        os.symlink(tmp_path / "secret" / "s.png", root / "l" / "s.png")
    data = Local(str(root))
    assert data.names() == ["i/a.png"]
    assert {step.name: step.count for step in data.selection.waterfall.steps}["leaves"] == 1


def test_a_link_within_the_folder_is_followed(tmp_path):
    put_board(tmp_path, {"1": {"path": "l/a.png", "tags": ["x"]}}, pictures=False)
    put(tmp_path, "i/a.png")
    os.symlink(tmp_path / "i", tmp_path / "l")
    assert Local(str(tmp_path)).names() == ["l/a.png"]


def test_a_loop_of_links_ends(tmp_path):
    put(tmp_path, "a/1.png", "a/1.txt")
    os.symlink(tmp_path, tmp_path / "a" / "loop")
    assert Local(str(tmp_path)).names() == ["a/1.png"]


def test_nothing_is_written_into_the_folder(tmp_path):
    root = put_board(tmp_path / "set", {"1": {"path": "a.png", "tags": ["x"], "score": 1}})
    before = sorted(path.relative_to(root) for path in root.rglob("*"))
    for folder in (root, root / "metadata"):
        folder.chmod(0o555)
    data = Local(str(root), metadata_params={"min_size": 1})
    assert len(data.sizes()) == 1
    for folder in (root, root / "metadata"):
        folder.chmod(0o755)
    assert sorted(path.relative_to(root) for path in root.rglob("*")) == before
    shutil.rmtree(root)
