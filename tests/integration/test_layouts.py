"""Each way of laying out pictures, and each kind of file, through the whole program."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.board import put_board
from support.runs import newest_run

Lun = Callable[..., int]


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".png":
            Image.new("RGB", (9, 8), text or "red").save(path)
        else:
            path.write_text(text)
    return root


LINES = [{"file_name": f"{i}.png", "text": f"picture {i}"} for i in range(3)]
PLAIN = {f"{i}.png": "" for i in range(3)}
TEXTS = {f"{i}.txt": "words" for i in range(3)}
LAYOUTS = {
    "flat (img/ + txt/), 3 images": {f"{'img' if 'png' in k else 'txt'}/{k}": v for k, v in {**PLAIN, **TEXTS}.items()},
    "flat (images/ + captions/), 3 images": {
        f"{'images' if 'png' in k else 'captions'}/{k}": v for k, v in {**PLAIN, **TEXTS}.items()
    },
    "flat (captions beside images), 3 images": {**PLAIN, "0.caption": "a", "1.caption": "b", "2.txt": "c"},
    "captions beside images, 3 images in 2 folders": {
        "a/b/0.png": "",
        "a/b/0.caption": "x",
        "c/1.png": "",
        "c/1.txt": "y",
    }
    | {"c/2.png": "", "c/2.txt": "z"},
    "kohya folders, 3 images in 2 folders, repeats 2 10": {
        "10_fox/0.png": "",
        "2_hen/1.png": "",
        "2_hen/2.png": "",
        "2_hen/2.txt": "a hen",
    },
    "metadata.jsonl, 3 entries": {**PLAIN, "metadata.jsonl": "\n".join(map(json.dumps, LINES))},
    "metadata.csv, 3 entries": {**PLAIN, "metadata.csv": "file_name,text\n0.png,a\n1.png,b\n2.png,c\n"},
    "posts.jsonl, 3 entries": {
        **PLAIN,
        "posts.jsonl": "\n".join(json.dumps({"path": f"{i}.png", "tags": ["a"], "score": i}) for i in range(3)),
    },
}


@pytest.mark.parametrize("words", LAYOUTS)
def test_every_layout_is_recognised_said_and_read(lun: Lun, tmp_path: Path, caplog, words: str) -> None:
    root = put(tmp_path / "set", LAYOUTS[words])
    assert lun(data=root) == 0
    told = "\n".join(caplog.messages)
    assert f"layout   {root}: {words}" in told
    assert f"{root}: {14 if 'kohya' in words else 3} images, no validation" in told


def test_the_leaf_of_a_kohya_folder_is_read_too(lun: Lun, tmp_path: Path, caplog) -> None:
    root = put(tmp_path / "4_fox", {"0.png": "", "1.png": ""})
    assert lun(data=root) == 0
    assert f"{root}: 8 images, no validation" in "\n".join(caplog.messages)


def test_a_board_tells_its_waterfall_and_a_wrong_layout_is_a_data_error(
    lun: Lun, tmp_path: Path, caplog, capsys
) -> None:
    records = {f"a/b/{i}": {"path": f"{i}.png", "tags": ["x"], "score": i} for i in range(4)}
    root = put_board(tmp_path / "set", {**records, "out": {"path": "../x.png", "tags": [], "score": 9}})
    filters = "data.params.train.params.metadata_params={min_score: 2}"
    assert lun(filters, data=root) == 0
    told = "\n".join(caplog.messages)
    assert "board JSON, 5 files" in told
    assert "usable   2 of 5: -1 paths that lead out of the folder, -2 score below min_score 2 (the most)" in told
    assert lun("data.params.train.params.layout=flat", data=root.parent) == 3
    assert lun("data.params.train.params.metadata_params={min_score: 99}", data=root) == 3
    assert "<- removed the most" in capsys.readouterr().err


def noise(mode: str) -> Image.Image:
    numbers = np.random.default_rng(0)
    if mode == "I;16":
        return Image.fromarray(numbers.integers(0, 65536, (8, 9), dtype=np.uint16))
    return Image.fromarray(numbers.integers(0, 256, (8, 9, 3), dtype=np.uint8)).convert(mode)


KINDS = {
    "a.PNG": "RGBA",
    "b.Jpg": "RGB",
    "c.jpeg": "CMYK",
    "d.webp": "RGBA",
    "e.bmp": "RGB",
    "f.avif": "RGB",
    "g.tiff": "CMYK",
    "h.tif": "I;16",
    "i.gif": "P",
    "j.png": "I;16",
    "k.png": "LA",
    "l.png": "1",
}


def test_every_kind_of_file_is_trained_on(lun: Lun, tmp_path: Path) -> None:
    root = tmp_path / "set"
    root.mkdir()
    for name, mode in KINDS.items():
        noise(mode).save(root / name)
        (root / name).with_suffix(".txt").write_text(mode)
    (root / "Thumbs.db").touch()
    steps = f"lightning.trainer.max_steps={len(KINDS) // 2}"
    assert lun("-t", steps, "data.params.max_bad_fraction=0", data=root) == 0
    assert not (newest_run(tmp_path / "logs") / "data" / "rejected.csv").exists()
