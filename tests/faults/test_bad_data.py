"""Folders of pictures as people really have them, each refused or read in words, never in a traceback."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from support.board import put_board
from support.runs import make_pictures
from support.told import Told

from lun.trainer import run


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Told:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    return Told(tmp_path / "cwd", tmp_path / "data", capsys)


def picture(path: Path, size: tuple[int, int] = (8, 8), mode: str = "RGB", caption: str | None = "a picture") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size).save(path)
    if caption is not None:
        path.with_suffix(".txt").write_text(caption)


def nothing(root: Path) -> None:
    """No folder at all."""


def two_pictures(root: Path) -> None:
    make_pictures(root, 2)


def without_captions(root: Path) -> None:
    make_pictures(root, 2)
    for path in (root / "txt").iterdir():
        path.unlink()


def captions_of_others(root: Path) -> None:
    make_pictures(root, 2)
    for path in (root / "txt").iterdir():
        path.rename(path.with_name("x" + path.name))


def only_videos(root: Path) -> None:
    root.mkdir()
    (root / "a.mp4").write_bytes(b"\0\0\0 ftypisom")


def empty(root: Path) -> None:
    root.mkdir()


def empty_folders(root: Path) -> None:
    for name in ("img", "txt"):
        (root / name).mkdir(parents=True)


def a_file(root: Path) -> None:
    root.write_text("x")


def a_link_to_nothing(root: Path) -> None:
    root.symlink_to(root.with_name("gone"))


def files_of(content: bytes, ending: str = ".png") -> Callable[[Path], None]:
    """Five pictures, all of which hold these bytes."""

    def make(root: Path) -> None:
        make_pictures(root, 5)
        for path in (root / "img").iterdir():
            path.unlink()
            path.with_suffix(ending).write_bytes(content)

    return make


def truncated(root: Path) -> None:
    make_pictures(root, 5)
    for path in (root / "img").iterdir():
        path.write_bytes(path.read_bytes()[:60])


def captions_that_are_no_text(root: Path) -> None:
    make_pictures(root, 3)
    for path in (root / "txt").iterdir():
        path.unlink()
        path.mkdir()


def board(**record: object) -> Callable[[Path], None]:
    """A board with three descriptions that say this."""

    def make(root: Path) -> None:
        put_board(root, {f"{i}": {"path": f"img/{i}.png", "tags": ["a"], **record} for i in range(3)})

    return make


def board_of(text: str) -> Callable[[Path], None]:
    """A board whose descriptions are this text."""

    def make(root: Path) -> None:
        board()(root)
        for path in (root / "metadata").iterdir():
            path.write_text(text)

    return make


def lines(*records: object) -> Callable[[Path], None]:
    """Two pictures with a metadata.jsonl of these lines."""

    def make(root: Path) -> None:
        for name in ("a.png", "b.png"):
            picture(root / name, caption=None)
        rows = [record if isinstance(record, str) else json.dumps(record) for record in records]
        (root / "metadata.jsonl").write_text("\n".join(rows))

    return make


def table_of(text: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        picture(root / "a.png", caption=None)
        (root / "metadata.csv").write_text(text)

    return make


PARAMS = "data.params.train.params"
META = f"{PARAMS}.metadata_params"
A_BOARD = [f"{META}={{}}"]
PAGE = b"<!doctype html><title>404</title>"

REFUSED: dict[str, tuple[Callable[[Path], None], list[str], int, str, str]] = {
    "no folder": (nothing, [], 3, "DAT01", "data folder not found"),
    "a file": (a_file, [], 3, "DAT01", "is a file"),
    "a link to nothing": (a_link_to_nothing, [], 3, "DAT01", "data"),
    "an empty folder": (empty, [], 3, "DAT02", "the folder is empty"),
    "empty folders": (empty_folders, [], 3, "DAT02", "0 images"),
    "videos alone": (only_videos, [], 3, "DAT03", "mp4"),
    "no captions": (without_captions, [], 3, "DAT04", "default_caption="),
    "captions of other pictures": (captions_of_others, [], 3, "DAT04", "none of the 2 images"),
    "a layout that is not there": (two_pictures, [f"{PARAMS}.layout=board"], 3, "DAT03", "board"),
    "a layout that does not exist": (empty, [f"{PARAMS}.layout=heap"], 2, "CFG03", "kohya"),
    "too small a limit": (two_pictures, [f"{PARAMS}.limit_images=0"], 2, "CFG08", "limit_images"),
    "a split of nothing": (
        two_pictures,
        [f"{PARAMS}.split={{fraction: 0, by: hash}}", f"{PARAMS}.subset=train"],
        2,
        "CFG08",
        "between 0 and 1",
    ),
    "a split of everything": (
        two_pictures,
        [f"{PARAMS}.split={{fraction: 1.5, by: hash}}", f"{PARAMS}.subset=train"],
        2,
        "CFG08",
        "between 0 and 1",
    ),
    "repeats of nothing": (two_pictures, [f"{PARAMS}.repeats=0"], 2, "CFG08", "repeats"),
    "a board that is filtered to nothing": (board(score=1), [f"{META}={{min_score: 5000}}"], 3, "DAT02", "min_score=1"),
    "a board without the tag": (board(), [f"{META}={{require_tags: [b]}}"], 3, "DAT02", "required tag"),
    "a board of forbidden tags": (board(), [f"{META}={{blacklist_tags: [a]}}"], 3, "DAT02", "blacklisted"),
    "a board of other shapes": (
        board(aspect_ratio=9),
        [f"{META}={{aspect_range: [0.5, 2]}}"],
        3,
        "DAT02",
        "aspect ratio",
    ),
    "a board of other ratings": (board(rating="e"), [f"{META}={{ratings: [s]}}"], 3, "DAT02", "rating"),
    "a board of another time": (board(date="2020-01-01"), [f"{META}={{min_date: 2022-09-01}}"], 3, "DAT02", "date"),
    "a date that is none": (board(), [f"{META}={{min_date: soon}}"], 2, "CFG08", "2022-09-01"),
    "an unknown filter": (board(), [f"{META}={{minscore: 1}}"], 2, "CFG03", "min_score"),
    "a chance above one": (board(), [f"{META}={{tag_dropout_p: 2}}"], 2, "CFG08", "0 to 1"),
    "a range that is none": (board(), [f"{META}={{aspect_range: [2, 1]}}"], 2, "CFG08", "aspect_range"),
    "every none of them": (board(), [f"{META}={{consider_every_nth: 0}}"], 2, "CFG08", "consider_every_nth"),
    "descriptions that are no JSON": (board_of("{"), A_BOARD, 3, "DAT02", "unreadable"),
    "descriptions that are lists": (board_of("[1, 2]"), A_BOARD, 3, "DAT02", "unreadable"),
    "descriptions that are empty": (board_of(""), A_BOARD, 3, "DAT02", "unreadable"),
    "descriptions too deep to read": (board_of("[" * 100000), A_BOARD, 3, "DAT02", "unreadable"),
    "descriptions without a path": (board_of('{"tags": []}'), A_BOARD, 3, "DAT02", "without a path"),
    "descriptions with a path that is a number": (board_of('{"path": 5}'), A_BOARD, 3, "DAT02", "without a path"),
    "descriptions of what lies elsewhere": (
        board_of('{"path": "../../etc/passwd"}'),
        A_BOARD,
        3,
        "DAT02",
        "out of the folder",
    ),
    "descriptions of root's files": (board_of('{"path": "/etc/passwd"}'), A_BOARD, 3, "DAT02", "out of the folder"),
    "descriptions of missing pictures": (board_of('{"path": "img/none.png"}'), A_BOARD, 3, "DAT02", "missing"),
    "lines that are no JSON": (lines("{", "x"), [], 3, "DAT02", "unreadable"),
    "lines without captions": (lines({"file_name": "a.png"}), [], 3, "DAT04", "text"),
    "lines of missing pictures": (lines({"file_name": "z.png", "text": "x"}), [], 3, "DAT02", "missing"),
    "a table without a path": (table_of("name,text\na.png,x\n"), [], 3, "DAT02", "without a path"),
    "buckets without sizes": (two_pictures, ["data.params.buckets={resolutions: []}"], 2, "CFG08", "resolutions"),
    "buckets of an odd step": (two_pictures, ["data.params.buckets={resolutions: [8], step: 0}"], 2, "CFG08", "step"),
    "a cache of another type": (two_pictures, ["data.params.cache={dtype: int8}"], 2, "CFG03", "float16"),
    "a mask that is none": (two_pictures, [f"{PARAMS}.mask=red"], 2, "CFG03", "alpha"),
    "no data set at all": (two_pictures, ["~data.params.train"], 2, "CFG03", "target"),
    "a data set that is none": (two_pictures, ["data.params.train.target=torch.nn.Linear"], 2, "CFG04", "dataset"),
}

DURING = {
    "web pages": (files_of(PAGE), "not an image"),
    "empty files": (files_of(b""), "empty"),
    "random bytes": (files_of(bytes(range(256)) * 4), "img/"),
    "truncated pictures": (truncated, "truncated"),
    "a picture that would fill the memory": (
        files_of(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\3\r@\0\3\r@\x08\2\0\0\0" + b"\0" * 30),
        "img/",
    ),
    "captions that are folders": (captions_that_are_no_text, "caption"),
}
"""What is noticed only as pictures are read: beyond the share that may be bad, the run ends."""


@pytest.mark.parametrize("name", REFUSED)
def test_a_folder_that_is_refused(told: Told, name: str) -> None:
    make, settings, code, fault, part = REFUSED[name]
    make(told.data)
    told.refused(told.tiny(*settings), code, fault, part)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_folder_that_may_not_be_read(told: Told) -> None:
    make_pictures(told.data, 1)
    told.data.chmod(0)
    told.refused(told.tiny(), 3, "DAT01", "permission denied")


@pytest.mark.parametrize("name", DURING)
def test_pictures_that_cannot_be_read_end_the_run_in_words(
    told: Told, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, part = DURING[name]
    make(told.data)
    assert run(["--logdir", "logs", *told.tiny("lightning.trainer.max_steps=2"), "-t"]) == 3
    seen = capsys.readouterr()
    assert "Traceback" not in seen.out + seen.err
    assert seen.err.startswith("error[DAT")
    assert part in seen.err
