"""Every form in which people bring their pictures: recognised, with the right pictures and the right captions."""

import itertools
import json
import logging
import os
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from ldm.errors import Fault
from lun.data.local import Local

NAMES = ("a", "b", "c")
CAPTIONS = {name: f"words of {name}" for name in NAMES}


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 4)).save(root / name)


def texts(root: Path, *folders: str, ending: str = ".txt") -> None:
    for folder, name in itertools.product(folders, NAMES):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / (name + ending)).write_text(CAPTIONS[name])


def lines(path: Path, *records: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def pictures(folder: str = "") -> Callable[[Path], None]:
    return lambda root: put(root, *(os.path.join(folder, f"{name}.png") for name in NAMES))


def described(file: str, key: str, below: str = "", **more: object) -> Callable[[Path], None]:
    """One file of lines that names the pictures from its own folder on."""
    records = [{key: f"{below}{name}.png", "text": CAPTIONS[name], **more} for name in NAMES]
    return lambda root: lines(root / file, *records)


def table(file: str, below: str = "") -> Callable[[Path], None]:
    rows = "".join(f"{below}{name}.png,{CAPTIONS[name]}\n" for name in NAMES)

    def make(root: Path) -> None:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("file_name,text\n" + rows)

    return make


def board(below: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        for name in NAMES:
            record = {"path": f"{below}{name}.png", "score": 1, "tags": [CAPTIONS[name]]}
            lines(root / "metadata" / name[0] / f"{name}.json", record)

    return make


def kohya_json(file: str, key: Callable[[Path, str], str]) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        entries = {key(root, name): {"caption": CAPTIONS[name], "train_resolution": [6, 4]} for name in NAMES}
        (root / file).write_text(json.dumps(entries))

    return make


FORMS: dict[str, tuple[str, list[Callable[[Path], None]]]] = {
    "pictures and captions in one folder": ("flat", [pictures(), lambda root: texts(root, "")]),
    "img/ and txt/": ("flat", [pictures("img"), lambda root: texts(root, "txt")]),
    "images/ and captions/": ("flat", [pictures("images"), lambda root: texts(root, "captions")]),
    "images/ with captions beside them": ("flat", [pictures("images"), lambda root: texts(root, "images")]),
    "folders at any depth": ("sidecar", [pictures("x/y"), lambda root: texts(root, "x/y", ending=".caption")]),
    "kohya's folders": ("kohya", [pictures("10_cat"), lambda root: texts(root, "10_cat")]),
    "kohya's folders in img/": ("kohya", [pictures("img/10_cat"), lambda root: texts(root, "img/10_cat")]),
    "metadata.jsonl beside pictures": ("imagefolder", [pictures(), described("metadata.jsonl", "file_name")]),
    "metadata.jsonl beside images/": (
        "imagefolder",
        [pictures("images"), described("metadata.jsonl", "file_name", "images/")],
    ),
    "metadata.csv beside img/": ("imagefolder", [pictures("img"), table("metadata.csv", "img/")]),
    "train/metadata.jsonl in the parent": (
        "imagefolder",
        [pictures("train"), pictures("test"), described("train/metadata.jsonl", "file_name")],
    ),
    "train/metadata.csv with images/ in it": (
        "imagefolder",
        [pictures("train/images"), table("train/metadata.csv", "images/")],
    ),
    "metadata.jsonl in a folder of its own": (
        "imagefolder",
        [pictures("fox"), described("fox/metadata.jsonl", "file_name")],
    ),
    "a dump of a board beside images/": ("jsonl", [pictures("images"), described("posts.jsonl", "path", "images/")]),
    "a dump of a board in train/": ("jsonl", [pictures("train"), described("train/posts.jsonl", "image")]),
    "a board with img/": ("board", [pictures("img"), board("img/")]),
    "a board with images/": ("board", [pictures("images"), board("images/")]),
    "a board with folders": ("board", [pictures("full/0"), board("full/0/")]),
    "kohya's meta_cap.json by name": ("kohya-json", [pictures(), kohya_json("meta_cap.json", lambda _, name: name)]),
    "kohya's meta_lat.json by full path": (
        "kohya-json",
        [pictures("sub"), kohya_json("meta_lat.json", lambda root, name: f"{root.absolute()}/sub/{name}.png")],
    ),
    "kohya's JSON by name, pictures below": (
        "kohya-json",
        [pictures("sub"), kohya_json("in.json", lambda _, name: name)],
    ),
    "descriptions that name nothing here, captions beside": (
        "sidecar",
        [pictures("x"), lambda root: texts(root, "x"), described("log.jsonl", "path", "elsewhere/")],
    ),
    "captions in txt/ and a board as well": ("flat", [pictures("img"), lambda root: texts(root, "txt"), board("img/")]),
}

WITH_MASKS = (
    "pictures and captions in one folder",
    "img/ and txt/",
    "kohya's folders",
    "metadata.jsonl beside pictures",
)


def read(root: Path, **params: object) -> tuple[str, dict[str, str]]:
    data = Local(str(root), **params)
    found = {Path(data.name(i)).stem: data.caption(i) for i in range(len(data))}
    assert len(found) == len(data)
    return data.selection.contents.layout, found


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_its_pictures_and_captions_and_is_said_in_one_line(tmp_path: Path, form: str, caplog) -> None:
    layout, makers = FORMS[form]
    root = tmp_path / "set"
    for make in makers:
        make(root)
    with caplog.at_level(logging.INFO):
        assert read(root) == (layout, CAPTIONS)
    assert [message for message in caplog.messages if message.startswith(f"layout   {root}: ")]
    assert read(root, layout=layout) == (layout, CAPTIONS)


@pytest.mark.parametrize("form", WITH_MASKS)
@pytest.mark.parametrize("mask", ["folder", None])
def test_masks_are_never_pictures(tmp_path: Path, form: str, mask: str | None) -> None:
    for make in FORMS[form][1]:
        make(tmp_path)
    put(tmp_path, "mask/a.png", "mask/b.png")
    if form == "kohya's folders" and mask is None:  # nothing is named like them in the root or in img/
        mask = "folder"
    assert read(tmp_path, mask=mask)[1] == CAPTIONS
    (tmp_path / "mask" / "b.png").rename(tmp_path / "mask" / "of another name.png")
    assert read(tmp_path, mask="folder", allow_empty_captions=True)[1] == CAPTIONS


def test_what_a_missing_caption_is_advised_to_do_does_not_train_on_masks(tmp_path: Path) -> None:
    put(tmp_path, *(f"{name}.png" for name in NAMES), "mask/a.png")
    with pytest.raises(Fault) as caught:
        Local(str(tmp_path), mask="folder")
    assert caught.value.id == "DAT04"
    assert "allow_empty_captions=true" in caught.value.fix
    assert len(Local(str(tmp_path), mask="folder", allow_empty_captions=True)) == 3


def test_a_folder_named_mask_that_holds_other_pictures_is_read(tmp_path: Path) -> None:
    put(tmp_path, "face/1.png", "mask/2.png")
    assert set(read(tmp_path, allow_empty_captions=True)[1]) == {"1", "2"}


def test_kohya_s_json_joins_caption_and_tags_as_kohya_does(tmp_path: Path) -> None:
    put(tmp_path, "a.png", "b.webp", "c.png", "d.png")
    entries = {
        "a": {"caption": "a cat", "tags": "cat, solo"},
        "b": {"tags": "dog"},
        "c.png": {"caption": "a hen"},
        "d": {},
        "gone": {"caption": "x"},
        "/out/e.png": {"caption": "x"},
    }
    (tmp_path / "meta_cap.json").write_text(json.dumps(entries))
    assert read(tmp_path) == ("kohya-json", {"a": "a cat, cat, solo", "b": "dog", "c": "a hen"})
    steps = {step.name: step.count for step in Local(str(tmp_path)).selection.waterfall.steps if step.count}
    assert steps == {"outside": 1, "missing": 1, "no_caption": 1}


@pytest.mark.parametrize("on_disk", ["NFC", "NFD"])
@pytest.mark.parametrize("form", ["flat", "tree", "metadata.jsonl", "board", "meta_cap.json", "mask"])
def test_names_match_however_their_accents_are_written(tmp_path: Path, on_disk: str, form: str) -> None:
    other = {"NFC": "NFD", "NFD": "NFC"}[on_disk]
    here, there = (unicodedata.normalize(kind, "caf\u00e9") for kind in (on_disk, other))
    folder = "x/" if form == "tree" else ""
    put(tmp_path, f"{folder}{here}.png")
    if form in ("flat", "tree", "mask"):
        (tmp_path / folder / f"{there}.txt").write_text("words")
    if form == "mask":
        put(tmp_path, f"mask/{there}.png")
        data = Local(str(tmp_path), mask="folder", size=4)
        assert "mask" in data.picture(0, False)
    elif form == "metadata.jsonl":
        lines(tmp_path / form, {"file_name": f"{there}.png", "text": "words"})
    elif form == "board":
        lines(tmp_path / "metadata" / "1.json", {"path": f"{there}.png", "tags": ["words"]})
    elif form == "meta_cap.json":
        lines(tmp_path / form, {there: {"caption": "words"}})
    assert read(tmp_path) == (read(tmp_path)[0], {here: "words"})
