"""Which files of a folder an export wrote, by a list that may be anything."""

from pathlib import Path

import pytest

from ldm.convert.written_folder import MARK, files_in, listed_files


def test_the_list_of_an_export_is_read_and_what_lies_there_is_seen(tmp_path: Path) -> None:
    (tmp_path / "unet").mkdir()
    for name in ("unet/a", "b"):
        (tmp_path / name).touch()
    (tmp_path / MARK).write_text('{"files": ["unet/a"]}')
    assert listed_files(tmp_path) == {"unet/a"} and files_in(tmp_path) == {"unet/a", "b", MARK}


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"files": 3}', '{"files": [1]}', '{"files": [["a"]]}', "\x00"])
def test_a_list_that_is_none_is_no_export(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / MARK).write_text(text)
    assert listed_files(tmp_path) is None
