"""A bad picture in the middle of a run: replaced, listed, and past a limit the end."""

import csv
import os
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import pytest
import torch
from support.pictures import Painted

from ldm.errors import Fault
from ldm.position import Position
from lun.data.keyed import Keyed
from lun.data.loader import Loader
from lun.data.order.law import Key, Order
from lun.data.order.position_sampler import PositionBatchSampler, Window
from lun.data.rejects import RejectedList, Rejection, Replacing

N = 20


def read(workers: int, folder: Path | None, start: int = 0, limit: float = 0.2) -> list[dict]:
    order = Order(N, 0)
    sampler = PositionBatchSampler(order, Window(4), Position(slot=start), total_batches=10)
    rejected = RejectedList(N, limit, lambda: folder)
    keyed = Keyed(Painted([(8, 8)] * N, bad=(3, 7)), 0)
    return list(islice(Loader(keyed, sampler, order.another, rejected.add, num_workers=workers), 5 - start // 4))


def listed(folder: Path) -> list[list[str]]:
    with (folder / "rejected.csv").open() as lines:
        return list(csv.reader(lines))


def test_bad_pictures_are_replaced_alike_in_workers_and_after_a_resume(tmp_path):
    here, there, resumed = read(0, None), read(2, tmp_path), read(0, None, start=8)
    assert not any("picture 3" in caption or "picture 7" in caption for batch in here for caption in batch["caption"])
    assert torch.cat([batch["slot"] for batch in here]).tolist() == list(range(20))
    for one, other in zip([*here, *here[2:]], [*there, *resumed], strict=True):
        assert torch.equal(one["image"], other["image"])
        assert one["caption"] == other["caption"]


def test_what_was_rejected_is_listed_once_over_attempts(tmp_path):
    for _ in range(2):
        read(0, tmp_path / "data")
    rows = listed(tmp_path / "data")
    assert rows[0] == ["path", "reason", "set", "at"]
    assert sorted(row[:3] for row in rows[1:]) == [
        ["img/3.png", "truncated", "train"],
        ["img/7.png", "truncated", "train"],
    ]


def test_the_first_one_is_told(tmp_path, caplog):
    read(0, tmp_path)
    assert sum(message.startswith("warning[DAT06]: img/") for message in caplog.messages) == 1


def test_beyond_the_limit_the_run_stops(tmp_path):
    with pytest.raises(Fault) as caught:
        read(0, tmp_path, limit=0.05)
    assert caught.value.id == "DAT06"
    assert caught.value.what == "2 of 20 images (0.1 of them) cannot be read"
    assert len(listed(tmp_path)) == 3


def test_a_single_bad_picture_beyond_the_limit_is_named(tmp_path):
    with pytest.raises(Fault, match=r"cannot read image img/[37]\.png"):
        read(0, tmp_path, limit=0.0)


def test_a_dataset_of_bad_pictures_is_a_fault_and_no_endless_search():
    order = Order(2, 0)
    with pytest.raises(Fault, match="DAT06"):
        Replacing(Keyed(Painted([(8, 8)] * 2, bad=(0, 1)), 0), order.another)[Key(0, 0)]


def test_other_faults_are_not_hidden():
    class Broken(Painted):
        def example(self, index, draws, size=None):
            raise Fault("DAT08", "of the dataset itself")

    order = Order(2, 0)
    with pytest.raises(Fault, match="DAT08"):
        Replacing(Keyed(Broken([(8, 8)] * 2), 0), order.another)[Key(0, 0)]


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    RejectedList(10, 0.5, lambda: None).add([Rejection("a.png", "why", Fault("DAT06", "what"))])
    assert list(tmp_path.iterdir()) == []


def bad(path: Path, why: str = "truncated") -> list[Rejection]:
    path.touch()
    return [Rejection(str(path), why, Fault("DAT06", f"cannot read image {path}"))]


def test_the_limit_is_that_of_all_ranks_and_attempts(tmp_path):
    ranks = [RejectedList(100, 0.02, lambda: tmp_path / "data") for _ in range(3)]
    ranks[0].add(bad(tmp_path / "a.png"))
    ranks[1].add(bad(tmp_path / "a.png"))
    ranks[1].add(bad(tmp_path / "b.png"))
    with pytest.raises(Fault, match="3 of 100 images") as caught:
        ranks[2].add(bad(tmp_path / "c.png"))
    assert str(tmp_path / "data" / "rejected.csv") in caught.value.where
    assert [Path(row[0]).name for row in listed(tmp_path / "data")[1:]] == ["a.png", "b.png", "c.png"]


@pytest.mark.parametrize("shard", ["{}/000003.tar", "s3://pictures/set/000003.tar"])
def test_pictures_of_shards_count_over_attempts_as_files_do(tmp_path, shard):
    (tmp_path / "000003.tar").touch()
    for attempt in range(3):
        path = f"{shard.format(tmp_path)}#{attempt}"
        with pytest.raises(Fault, match="3 of 100 images") if attempt == 2 else nullcontext():
            later = RejectedList(100, 0.02, lambda: tmp_path / "data")
            later.add([Rejection(path, "truncated", Fault("DAT06", f"cannot read image {path}"))])


def test_what_was_repaired_or_removed_since_does_not_count(tmp_path):
    first = RejectedList(100, 0.02, lambda: tmp_path / "data")
    first.add(bad(tmp_path / "a.png"))
    first.add(bad(tmp_path / "b.png"))
    os.utime(tmp_path / "a.png", (2**32, 2**32))
    (tmp_path / "b.png").unlink()
    later = RejectedList(100, 0.02, lambda: tmp_path / "data")
    later.add(bad(tmp_path / "c.png"))
    later.add(bad(tmp_path / "d.png"))


def test_each_data_set_has_a_limit_of_its_own_in_the_same_list(tmp_path):
    for split in ("train", "validation"):
        RejectedList(100, 0.01, lambda: tmp_path, split).add(bad(tmp_path / f"{split}.png"))
    assert [row[2] for row in listed(tmp_path)[1:]] == ["train", "validation"]


def test_a_list_that_cannot_be_written_does_not_end_the_run(tmp_path, caplog):
    (tmp_path / "file").touch()
    RejectedList(100, 0.5, lambda: tmp_path / "file" / "data").add(bad(tmp_path / "a.png"))
    assert any("is not listed" in message for message in caplog.messages)


def test_no_name_of_a_picture_is_a_formula_to_a_spreadsheet(tmp_path):
    rejected = RejectedList(N, 1.0, lambda: tmp_path)
    names = ["=cmd|' /C calc'!A0.png", "+1.png", "-2.png", "@x.png", "plain.png"]
    for _ in range(2):
        rejected.add([Rejection(name, "=truncated", Fault("DAT04", "unreadable")) for name in names])
        rejected = RejectedList(N, 1.0, lambda: tmp_path)
    rows = listed(tmp_path)[1:]
    assert [row[0] for row in rows] == [f"./{name}" for name in names[:4]] + ["plain.png"]
    assert all(row[1] == "./=truncated" for row in rows)
