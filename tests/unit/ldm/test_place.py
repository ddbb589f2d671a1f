import os
import stat
from pathlib import Path

import pytest

from ldm.place import cache_root, private_folder


@pytest.mark.parametrize("variable", ["LUN_CACHE", "XDG_CACHE_HOME"])
def test_a_cache_that_is_made_is_for_its_user_alone(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LUN_CACHE")
    monkeypatch.setenv(variable, str(tmp_path / "cache"))
    root = cache_root()
    assert root.is_relative_to(tmp_path / "cache")
    assert stat.S_IMODE(os.stat(root).st_mode) == 0o700


def test_a_cache_that_is_there_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setenv("LUN_CACHE", str(tmp_path))
    assert stat.S_IMODE(os.stat(cache_root()).st_mode) == 0o755


@pytest.mark.parametrize(("mode", "private"), [(0o700, True), (0o755, True), (0o775, False), (0o757, False)])
def test_a_folder_is_private_where_no_other_user_may_write(mode: int, private: bool, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert private_folder(folder) is private
