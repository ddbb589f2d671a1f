"""Parquet as exporters write it; needs pyarrow, which is not installed with the tests' tools for its size."""

import logging
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from PIL import Image

from ldm.errors import Fault
from lun.data.local import Local

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def put(root: Path, name: str = "posts.parquet", **columns: object) -> Path:
    """A table of that name, and a picture for each path in it."""
    for path in columns["path"]:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (6, 4)).save(root / path)
    parquet.write_table(arrow.table(columns), root / name, row_group_size=2)
    return root


def captions(root: Path, **params: object) -> dict[str, str]:
    data = Local(str(root), size=4, **params)
    return {data.name(index): data.caption(index) for index in range(len(data))}


def test_tags_scores_and_text_are_read_over_row_groups(tmp_path):
    tags = [["b", "a"], ["c"], [], ["d", None, "e"], None]
    put(tmp_path, path=[f"{i}.png" for i in range(5)], tags=tags, score=[1, 2, 3, None, 5], text=[None] * 4 + ["words"])
    found = captions(tmp_path)
    assert found == {"0.png": "a, b", "1.png": "c", "3.png": "d, e", "4.png": "words"}
    assert captions(tmp_path, metadata_params={"min_score": 2}) == {"1.png": "c", "4.png": "words"}


@pytest.mark.parametrize(
    "dates",
    [
        [datetime(2022, 8, 31, tzinfo=UTC), datetime(2022, 9, 1, tzinfo=UTC)],
        [datetime(2022, 8, 31), datetime(2022, 9, 1)],
        [date(2022, 8, 31), date(2022, 9, 1)],
        ["2022-08-31", "2022-09-01T00:00:00Z"],
    ],
    ids=["moments with a zone", "moments without", "days", "text"],
)
def test_dates_of_every_type_can_be_filtered_by(tmp_path, dates):
    put(tmp_path, path=["a.png", "b.png"], tags=[["x"], ["y"]], created_at=dates)
    assert captions(tmp_path, metadata_params={"min_date": "2022-09-01"}) == {"b.png": "y"}


def test_decimal_numbers_count(tmp_path):
    put(tmp_path, path=["a.png", "b.png"], tags=[["x"], ["y"]], score=[Decimal("1.5"), Decimal("2.5")])
    assert captions(tmp_path, metadata_params={"min_score": 2}) == {"b.png": "y"}


def test_columns_that_say_nothing_are_not_read(tmp_path, monkeypatch):
    put(tmp_path, path=["a.png"], tags=[["x"]], pixels=[b"\0" * 1000], id=[7])
    asked = []
    read = parquet.ParquetFile.iter_batches

    def recorded(self, **how):
        asked.append(how["columns"])
        return read(self, **how)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", recorded)
    assert captions(tmp_path) == {"a.png": "x"}
    assert asked == [["path", "tags"]]


def test_several_files_are_one_set_and_rows_are_named_by_line(tmp_path, caplog):
    put(tmp_path, "a.parquet", path=["a/1.png", "a/2.png"], tags=[["x"], ["y"]])
    put(tmp_path, "b.parquet", path=["b/1.png"], tags=[["z"]])
    (tmp_path / "a/2.png").unlink()
    with caplog.at_level(logging.INFO):
        assert captions(tmp_path) == {"a/1.png": "x", "b/1.png": "z"}
    assert any("a.parquet, b.parquet, 3 entries" in message for message in caplog.messages)
    assert any("-1 image missing" in message for message in caplog.messages)


def test_the_parent_of_the_set_will_do_and_paths_count_from_the_file(tmp_path):
    put(tmp_path / "train", path=["a.png"], text=["words"])
    put(tmp_path / "test", path=["b.png"], text=["others"])
    assert captions(tmp_path) == {"train/a.png": "words"}


def test_a_second_start_reads_the_index(tmp_path, monkeypatch):
    put(tmp_path, path=["a.png"], tags=[["x"]])
    captions(tmp_path)
    monkeypatch.setattr(parquet, "ParquetFile", lambda path: pytest.fail("it was read again"))
    assert captions(tmp_path) == {"a.png": "x"}


def test_paths_do_not_leave_the_folder(tmp_path):
    put(tmp_path, path=["a.png"], tags=[["x"]])
    parquet.write_table(arrow.table({"path": ["../a.png", "/etc/a.png"], "tags": [["x"]] * 2}), tmp_path / "b.parquet")
    assert captions(tmp_path) == {"a.png": "x"}


def test_a_broken_file_is_a_fault_that_names_it(tmp_path):
    (tmp_path / "posts.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(Fault, match="DAT03") as caught:
        Local(str(tmp_path))
    assert "posts.parquet" in caught.value.what
