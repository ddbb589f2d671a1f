"""The loop over pictures: killed anywhere and started again, it gives what one start gives."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.runs import make_pictures

from ldm.errors import Fault
from lun.annotate.annotated_folder import AnnotatedFolder
from lun.annotate.annotating import Annotating
from lun.annotate.description_file import DescriptionFile
from lun.annotate.outputs import MaskFiles, TextFiles
from lun.data.local import Local


class Brightness:
    """How bright a picture is, in as many columns as are asked for; killed at the picture of number `dies_at`."""

    def __init__(self, *columns: str, dies_at: int | None = None) -> None:
        self.columns, self.dies_at, self.seen = columns, dies_at, 0

    def __call__(self, pictures):
        self.seen += len(pictures)
        if self.dies_at is not None and self.seen > self.dies_at:
            raise KeyboardInterrupt
        return [self.of(np.asarray(picture)) for picture in pictures]

    def of(self, pixels):
        told = {
            "caption": f"a {pixels.mean():.3f}",
            "tags": [f"b{pixels[0, 0, 0]}", "c"],
            "score": float(pixels.mean()),
        }
        return {**{name: told.get(name) for name in self.columns}, **self.masked(pixels)}

    def masked(self, pixels):
        return {"mask": Image.fromarray(pixels[..., 0])} if "mask" in self.columns else {}


def folder_of(root: Path, **params) -> AnnotatedFolder:
    return AnnotatedFolder(Local(str(root), size=8, allow_empty_captions=True, **params))


def bare(root: Path, count: int = 12) -> Path:
    """Pictures without captions."""
    make_pictures(root, count)
    for text in (root / "txt").iterdir():
        text.unlink()
    return root


def output_of(kind: str, folder: AnnotatedFolder):
    if kind == "mask":
        return MaskFiles(folder)
    if kind == "caption":
        return TextFiles(folder)
    return DescriptionFile(folder.root / "metadata.jsonl", folder, {"target": "x"}, ["caption", "score"])


COLUMNS = {"mask": ("mask",), "caption": ("caption",), "described": ("caption", "score")}


def written(root: Path) -> dict[str, bytes]:
    names = [path for path in sorted(root.rglob("*")) if path.is_file() and path.parent != root / "img"]
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in names}


@pytest.mark.parametrize("kind", COLUMNS)
def test_ten_kills_give_what_one_start_gives(tmp_path: Path, kind: str) -> None:
    whole, killed, lot = bare(tmp_path / "whole"), bare(tmp_path / "killed"), random.Random(0)
    folder = folder_of(whole)
    Annotating(folder, Brightness(*COLUMNS[kind]), (out := output_of(kind, folder)), 2).run()
    out.finish()
    seen = 0
    for _ in range(10):
        folder = folder_of(killed)
        annotator = Brightness(*COLUMNS[kind], dies_at=lot.randrange(5))
        output = output_of(kind, folder)
        try:
            Annotating(folder, annotator, output, 2).run()
        except KeyboardInterrupt:
            if kind == "described":  # the system's last page of the file may be half of a row
                output._open.write(b'{"sha256": "half of a r')
                output._open.close()
        seen += annotator.seen
    folder = folder_of(killed)
    output = output_of(kind, folder)
    done = Annotating(folder, Brightness(*COLUMNS[kind]), output, 2).run()
    output.finish()
    assert written(killed) == written(whole) and len(written(whole)) in (1, 12)
    assert done.new + done.before == 12 and done.before > 0 and seen > 0


def test_pictures_that_have_it_are_not_read_again_and_unreadable_ones_are_named(tmp_path: Path) -> None:
    root = make_pictures(tmp_path / "set", 4)
    (root / "txt" / "001.txt").unlink()
    (root / "img" / "broken.png").write_bytes(b"<html>")
    folder, annotator = folder_of(root), Brightness("caption")
    done = Annotating(folder, annotator, TextFiles(folder), 8).run()
    assert (done.new, done.before, annotator.seen) == (1, 3, 1)
    assert done.unreadable == [("img/broken.png", 'not an image (starts with "<html>": a download error page)')]
    assert (root / "txt" / "001.txt").read_text().startswith("a ")
    assert (root / "txt" / "000.txt").read_text() == "red noise 0\n"


def test_copies_of_a_picture_are_told_alike_by_their_content(tmp_path: Path) -> None:
    root = bare(tmp_path / "set", 3)
    (root / "img" / "copy.png").write_bytes((root / "img" / "000.png").read_bytes())
    folder, annotator = folder_of(root), Brightness("score")
    output = DescriptionFile(root / "metadata.jsonl", folder, {}, ["score"])
    Annotating(folder, annotator, output, 1).run()
    output.finish()
    rows = [json.loads(line) for line in (root / "metadata.jsonl").read_text().splitlines()]
    scores = {row["file_name"]: row["score"] for row in rows}
    assert len(scores) == 4 and scores["img/000.png"] == scores["img/copy.png"]


class Odd(Brightness):
    def __init__(self, columns, rows) -> None:
        super().__init__(*columns)
        self.rows = rows

    def __call__(self, pictures):
        return self.rows


@pytest.mark.parametrize(
    ("columns", "rows", "why"),
    [
        (["caption"], [], "0 rows for 1 pictures"),
        (["caption"], None, "a NoneType for 1 pictures"),
        (["caption"], [{"tags": ["a"]}], "it gave ['tags'], and its columns are ['caption']"),
        (["caption"], [{"caption": 5}], "caption is text, not 5"),
        (["tags"], [{"tags": "a, b"}], "tags is a list of text"),
        (["score"], [{"score": float("nan")}], "score is a finite number, not nan"),
        (["mask"], [{"mask": [[1]]}], "mask is a picture of Pillow's"),
    ],
)
def test_senseless_rows_are_one_message(tmp_path: Path, columns, rows, why: str) -> None:
    folder = folder_of(bare(tmp_path / "set", 1))
    with pytest.raises(Fault) as caught:
        Annotating(folder, Odd(columns, rows), TextFiles(folder), 1).run()
    assert caught.value.id == "DAT08" and why in caught.value.why


@pytest.mark.parametrize(("batch", "fix"), [(8, "--batch 4"), (1, "--dtype bf16")])
def test_out_of_memory_tells_a_smaller_batch(tmp_path: Path, batch: int, fix: str) -> None:
    class Greedy(Brightness):
        def __call__(self, pictures):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    folder = folder_of(bare(tmp_path / "set", 2))
    with pytest.raises(Fault) as caught:
        Annotating(folder, Greedy("caption"), TextFiles(folder), batch).run()
    assert caught.value.id == "DEV02" and caught.value.fix.startswith(fix)
