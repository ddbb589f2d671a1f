"""Copies and pictures that look alike, over all sets, packed ones too; and what validation shares with training."""

import csv
import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from lun.data.packed import PackedSet
from lun.inspect.command import run
from lun.inspect.prints import prints_of
from lun.inspect.view import DatasetView
from lun.pack.command import run as pack


def blobs(path: Path, seed: int, size: tuple[int, int] = (48, 36)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC).save(path)
    path.with_suffix(".txt").write_text(f"blob {seed}")
    return path


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`cats` with a copy and a smaller one of a picture, `dogs` with a copy of another, `held` with two of theirs."""
    for number in range(6):
        blobs(tmp_path / f"cats/{number}.png", number)
    shutil.copy(tmp_path / "cats/0.png", tmp_path / "cats/copy.png")
    (tmp_path / "cats/copy.txt").write_text("copy")
    blobs(tmp_path / "cats/small.png", 1, (40, 30))
    for number in range(10, 13):
        blobs(tmp_path / f"dogs/{number}.png", number)
    shutil.copy(tmp_path / "cats/2.png", tmp_path / "dogs/2.png")
    (tmp_path / "dogs/2.txt").write_text("two")
    for number in (20, 21):
        blobs(tmp_path / f"held/{number}.png", number)
    shutil.copy(tmp_path / "dogs/11.png", tmp_path / "held/x.png")
    (tmp_path / "held/x.txt").write_text("x")
    blobs(tmp_path / "held/y.png", 4, (40, 30))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def local(root: str) -> dict:
    return {"target": "lun.data.local.Local", "params": {"data_root": root, "size": 8}}


def config(cats: dict, buckets: dict | None = None) -> str:
    sets = {"cats": {**cats, "weight": 3}, "dogs": {**local("dogs"), "weight": 1}}
    params = {"batch_size": 1, "buckets": buckets, "train": {"sets": sets}, "validation": local("held")}
    Path("sets.yaml").write_text(yaml.safe_dump({"data": {"params": params}}))
    return "sets.yaml"


def rows(file: Path) -> list[list[str]]:
    with file.open(newline="") as lines:
        return list(csv.reader(lines))


@pytest.mark.parametrize("packed", [False, True])
def test_all_pictures_of_all_sets_are_compared_and_listed(desk: Path, packed: bool, capsys) -> None:
    cats = local("cats")
    if packed:
        assert pack(["cats", "-o", "packed", "--order", "given"]) == 0
        cats = {"target": "lun.data.packed.PackedSet", "params": {"data_root": "packed", "size": 8}}
    assert run(["--base", config(cats), "--duplicates", "all", "-o", "out", "--json"]) == 0
    said = capsys.readouterr().out
    listed = rows(desk / "out" / "duplicates.csv")
    groups: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for number, kind, name, path in listed[1:]:
        groups.setdefault((kind, number), set()).add((name, path.rpartition("/")[2]))
    names = {f"{number}.png": f"000000.tar#{number}" for number in range(6)} if packed else {}
    names |= {"copy.png": "000000.tar#6", "small.png": "000000.tar#7"} if packed else {}
    cat = lambda name: ("cats", names.get(name, name))  # noqa: E731
    assert {(kind, frozenset(group)) for (kind, _), group in groups.items()} == {
        ("same file", frozenset({cat("0.png"), cat("copy.png")})),
        ("same file", frozenset({cat("2.png"), ("dogs", "2.png")})),
        ("same file", frozenset({("dogs", "11.png"), ("validation", "x.png")})),
        ("looks alike", frozenset({cat("1.png"), cat("small.png")})),
        ("looks alike", frozenset({cat("4.png"), ("validation", "y.png")})),
    }
    assert "over all: same file 3 · look alike 2 · of 16" in said
    found = json.loads((desk / "out" / "sets.json").read_text())
    assert (found["held_out"], found["held_out_alike"]) == (4, 1)
    table = {row["name"]: row for row in found["rows"]}
    assert (table["cats"]["copies"], table["cats"]["alike"], table["dogs"]["copies"]) == (1, 1, 0)


def test_a_packed_set_is_fetched_many_at_a_time_and_read_by_one_thread(desk: Path, monkeypatch) -> None:
    assert pack(["cats", "-o", "packed"]) == 0
    fetched, readers = [], set()
    read = PackedSet.encoded
    monkeypatch.setattr(PackedSet, "fetch", lambda self, indices: fetched.append(list(indices)))
    monkeypatch.setattr(
        PackedSet, "encoded", lambda self, index: readers.add(threading.get_ident()) or read(self, index)
    )
    prints_of(DatasetView(PackedSet("packed", size=8)), range(8))
    assert fetched == [list(range(8))] and readers == {threading.get_ident()}


def test_what_validation_shares_with_training_is_told_by_content(desk: Path, capsys) -> None:
    assert run(["--base", config(local("cats")), "-o", "out", "--png"]) == 0
    said = capsys.readouterr().out
    assert "warning[DAT10]: 1 of the 4 pictures for validation are in training too" in said and "such as x.png" in said
    assert not (desk / "out" / "duplicates.csv").exists()
    assert run(["--base", config(local("cats")), "-o", "out", "--png"]) == 2  # that report stays


def test_what_validation_shares_with_a_packed_set_is_told_where_all_are_compared(desk: Path, capsys) -> None:
    shutil.copy(desk / "cats/3.png", desk / "held/z.png")
    (desk / "held/z.txt").write_text("z")
    assert pack(["cats", "-o", "packed", "--order", "given"]) == 0
    base = config({"target": "lun.data.packed.PackedSet", "params": {"data_root": "packed", "size": 8}})
    assert run(["--base", base, "-o", "few", "--json"]) == 0
    assert "are compared with validation by --duplicates all" in capsys.readouterr().out
    assert run(["--base", base, "--duplicates", "all", "-o", "all", "--json"]) == 0
    assert "by --duplicates all" not in capsys.readouterr().out
    few, every = (json.loads((desk / name / "sets.json").read_text())["held_out_copies"] for name in ("few", "all"))
    assert [pair[0] for pair in few] == ["x.png"]
    assert [pair[0] for pair in every] == ["x.png", "z.png"] and every[1][1].endswith("000000.tar#3")


@pytest.mark.parametrize("buckets", [None, {"resolutions": [16], "step": 8}])
def test_sets_stand_in_one_table_with_their_shares_and_laps(desk: Path, buckets: dict | None, capsys) -> None:
    (desk / "cats/orphan.txt").write_text("nobody's")
    (desk / "cats/mask").mkdir()
    shutil.copy(desk / "cats/0.png", desk / "cats/mask/0.png")
    shutil.copy(desk / "cats/0.png", desk / "cats/mask/nobody.png")
    (desk / "dogs/10.png").write_bytes(b"no picture")
    cats = local("cats")
    cats["params"]["mask"] = "folder"
    assert run(["--base", config(cats, buckets), "-o", "out"]) == 0
    said = capsys.readouterr().out
    found = json.loads((desk / "out" / "sets.json").read_text())
    table = {row["name"]: row for row in found["rows"]}
    assert (table["cats"]["pictures"], table["cats"]["unread"], table["dogs"]["unreadable"]) == (8, 2, 1)
    assert table["cats"]["share"] == pytest.approx(0.75) and table["cats"]["laps"] == pytest.approx(9 / 8)
    assert any(line.startswith("mixing    cats: 8 images") for line in said.splitlines())
    assert "mask/nobody.png" in {row[0] for row in rows(desk / "out/cats/rejected.csv")}
    page = (desk / "out" / "report.html").read_text()
    assert "<a href='cats/report.html'>" in page and "75.0%" in page
