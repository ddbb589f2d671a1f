"""Caption files of any origin become one line."""

import logging

import pytest

from ldm.errors import Fault
from lun.data.metadata.caption_files import CaptionReader


@pytest.mark.parametrize(
    ("content", "caption"),
    [
        (b"a fox,  red\nbackground\r\n", "a fox, red background"),
        (b"  \t fox \n", "fox"),
        (b"", ""),
        ("n\u00e4chtlicher Fuchs".encode(), "n\u00e4chtlicher Fuchs"),
        ("\ufefffox".encode(), "fox"),
        ("fuchs \u00e4".encode("utf-16"), "fuchs \u00e4"),
        ("n\u00e4cht".encode("latin-1"), "n\u00e4cht"),
    ],
)
def test_a_file_is_read_as_one_line(tmp_path, content, caption):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    assert CaptionReader()(path) == caption


def test_an_old_encoding_is_told_once(tmp_path, caplog):
    reader = CaptionReader()
    (tmp_path / "a.txt").write_bytes(b"\xe4")
    (tmp_path / "b.txt").write_bytes(b"\xf6")
    with caplog.at_level(logging.WARNING):
        assert [reader(tmp_path / "a.txt"), reader(tmp_path / "b.txt")] == ["\u00e4", "\u00f6"]
    assert [record.getMessage() for record in caplog.records] == [
        f"caption {tmp_path / 'a.txt'} is not UTF-8; it and others like it are read as Latin-1"
    ]


def test_a_vanished_caption_is_a_fault_that_names_it(tmp_path):
    with pytest.raises(Fault) as caught:
        CaptionReader()(tmp_path / "a.txt")
    assert caught.value.id == "DAT04"
    assert caught.value.what == f"cannot read caption {tmp_path / 'a.txt'}"
