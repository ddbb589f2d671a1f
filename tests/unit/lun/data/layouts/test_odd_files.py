"""What is in folders besides pictures: links, FIFOs, devices, sockets, odd numbers, odd text. Nothing hangs."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from ldm.errors import Fault
from lun.data.images.decode import decode, header_size
from lun.data.local import Local
from lun.data.module import DataModuleFromConfig

pytestmark = pytest.mark.timeout(200)


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(path.parent)  # its path may have no more than 107 bytes
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("gone")


def a_link_out(path: Path) -> None:
    outside = next(folder for folder in path.parents if folder.name == "set").parent / "outside"
    outside.mkdir(exist_ok=True)
    Image.new("RGB", (6, 4)).save(outside / "secret.png")
    target = outside / ("secret" + path.suffix)
    if path.suffix != ".png":
        target.write_text("secret")
    path.symlink_to(target)


ODD = (a_fifo, a_socket, a_link_to_a_device, a_link_to_itself, a_link_to_nothing, a_link_out)
PLACES = ("odd.png", "a.caption", "odd.txt", "mask/a.png", "metadata.jsonl", "metadata.csv", "x.jsonl", "meta_cap.json")
DESCRIBED = ("odd.png", "metadata/2.json", "metadata/odd.jsonl")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "set"
    for name in ("mask", "metadata"):
        (root / name).mkdir(parents=True)
    Image.new("RGB", (6, 4)).save(root / "a.png")
    return root


@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_file_of_the_folder_is_told_and_never_opened(
    root: Path, make: Callable[[Path], None], place: str
) -> None:
    (root / "a.txt").write_text("words")
    make(root / place)
    data = Local(str(root), size=4, mask="folder")
    assert [data.caption(0)] == ["words"]
    assert data.sizes().tolist() == [[6, 4]]
    assert "mask" not in data.picture(0, False)
    if not place.startswith("mask/"):
        assert place in dict(data.selection.contents.unread)


@pytest.mark.parametrize("make", ODD)
@pytest.mark.parametrize("place", DESCRIBED)
def test_descriptions_that_are_no_files_are_told_and_never_opened(
    root: Path, make: Callable[[Path], None], place: str
) -> None:
    for number, name in enumerate(("a", "odd")):
        record = {"path": f"{name}.png", "tags": ["x"]}
        (root / "metadata" / f"{number}.json").write_text(json.dumps(record))
    make(root / place)
    data = Local(str(root), size=4)
    assert data.names() == ["a.png"]
    removed = {step.name: step.count for step in data.selection.waterfall.steps if step.count}
    assert sum(removed.values()) <= 2
    assert removed.get("leaves", 0) + removed.get("special", 0) + removed.get("missing", 0) == 1


@pytest.mark.parametrize("make", [a_fifo, a_socket, a_link_to_a_device])
def test_a_picture_that_became_something_else_is_a_bad_picture(root: Path, make: Callable[[Path], None]) -> None:
    make(root / "late.png")
    for read in (decode, header_size):
        with pytest.raises(Fault) as caught:
            read(root / "late.png")
        assert caught.value.id == "DAT06"
        assert caught.value.why.startswith("not a file but a ")


def test_a_link_to_a_folder_above_brings_no_foreign_pictures(root: Path) -> None:
    (root / "a.png").unlink()
    (root / "sub").mkdir()
    (root / "sub" / "up").symlink_to(root.parent)
    (root.parent / "foreign").mkdir()
    for place in (root / "sub" / "1", root.parent / "foreign" / "2"):
        Image.new("RGB", (6, 4)).save(f"{place}.png")
        Path(f"{place}.txt").write_text("x")
    data = Local(str(root))
    assert data.names() == ["sub/1.png"]
    assert dict(data.selection.contents.unread) == {"sub/up": "link that leads out of the folder"}
    assert len(Local(str(root), follow_links=True)) == 2


def test_a_folder_of_links_alone_is_told_how_to_be_read(root: Path) -> None:
    (root / "a.png").rename(root.parent / "a.png")
    (root / "a.png").symlink_to(root.parent / "a.png")
    with pytest.raises(Fault) as caught:
        Local(str(root), allow_empty_captions=True)
    assert caught.value.id == "DAT03"
    assert "follow_links=true" in caught.value.fix
    assert Local(str(root), allow_empty_captions=True, follow_links=True).names() == ["a.png"]


@pytest.mark.parametrize("key", ["path", "text", "tags", "rating"])
@pytest.mark.parametrize("layout", ["board", "jsonl"])
def test_half_a_pair_of_surrogates_is_no_fault_of_the_program(root: Path, layout: str, key: str) -> None:
    odd = {"path": "a.png", "text": "t", "tags": ["x"], "rating": "s"}
    odd |= {key: ["\ud800"] if key == "tags" else "sub\ud800/\ud800.png"}
    records = [odd, {"path": "a.png", "text": "t", "tags": ["x"]}]
    if layout == "board":
        for number, record in enumerate(records):
            (root / "metadata" / f"{number}.json").write_text(json.dumps(record))
    else:
        (root / "x.jsonl").write_text("\n".join(map(json.dumps, records)))
    data = Local(str(root), layout=layout, metadata_params={"words": "tags+text", "score_tags": [1]})
    assert data.names() == ["a.png"] * (1 if key == "path" else 2)
    for index in range(len(data)):
        data.caption(index).encode()  # as a tokenizer has to
    data.fingerprint()


def test_a_cell_of_any_length_is_read(root: Path) -> None:
    (root / "metadata.csv").write_text(f"file_name,text,other\na.png,words,{'x' * 200_000}\n")
    assert Local(str(root)).caption(0) == "words"


@pytest.mark.parametrize("repeats", [2147483647, -1, "many", 1e9])
def test_repeats_that_no_epoch_could_hold_are_rejected(root: Path, repeats: object) -> None:
    Image.new("RGB", (6, 4)).save(root / "b.png")
    records = [{"path": "a.png", "text": "t"}, {"path": "b.png", "text": "t", "repeats": repeats}]
    (root / "x.jsonl").write_text("\n".join(map(json.dumps, records)))
    data = Local(str(root))
    assert data.names() == ["a.png"]
    assert {step.name: step.count for step in data.selection.waterfall.steps if step.count} == {"repeats": 1}
    with pytest.raises(Fault) as caught:
        Local(str(root), repeats=2147483647)
    assert caught.value.id == "CFG08"


def test_an_epoch_too_long_to_be_ordered_is_refused(root: Path) -> None:
    (root / "x.jsonl").write_text(json.dumps({"path": "a.png", "text": "t", "repeats": 100_000}))
    recipe = {"target": "lun.data.local.Local", "params": {"data_root": str(root), "repeats": 100_000}}
    with pytest.raises(Fault) as caught:
        DataModuleFromConfig(1, train=recipe).law()
    assert caught.value.id == "CFG08"
    assert "10,000,000,000" in caught.value.what


def board(root: Path, *records: object) -> None:
    for number, record in enumerate(records):
        (root / "metadata" / f"{number}.json").write_text(json.dumps(record))


def test_a_record_without_tags_is_no_picture_with_an_empty_caption(root: Path) -> None:
    board(root, {"path": "a.png"}, {"path": "a.png", "tags": []}, {"path": "a.png", "tags": ["x"]})
    data = Local(str(root))
    assert [data.caption(i) for i in range(len(data))] == ["", "x"]
    assert {step.words: step.count for step in data.selection.waterfall.steps if step.count} == {"without a caption": 1}
    assert len(Local(str(root), allow_empty_captions=True)) == 3
    assert Local(str(root), default_caption="a fox").caption(0) == "a fox"


def test_each_filter_tells_what_lacks_its_value_from_what_does_not_reach_it(root: Path) -> None:
    for name, content in {"empty.png": b"", "page.png": b"<!doctype html>"}.items():
        (root / name).write_bytes(content)
    names = ("a.png", "empty.png", "page.png")
    board(root, *({"path": name, "tags": ["x"]} for name in names), {"path": "a.png", "tags": ["x"], "score": 1})
    asked = {
        "aspect_range": ([5, 6], {"unreadable image": 2, "aspect ratio outside 5 to 6": 2}),
        "min_size": (50, {"unreadable image": 2, "shorter side below 50 pixels": 2}),
        "abs_min_score": (9, {"without a score": 3, "score below abs_min_score 9": 1}),
        "min_score": (9, {"without a score": 3, "score below min_score 9": 1}),
        "ratings": (["s"], {"without a rating": 4}),
        "min_date": ("2022-01-01", {"without a date": 4}),
    }
    for name, (value, steps) in asked.items():
        with pytest.raises(Fault) as caught:
            Local(str(root), metadata_params={name: value})
        waterfall = caught.value.selection.waterfall
        assert {step.words: step.count for step in waterfall.steps if step.count} == steps
