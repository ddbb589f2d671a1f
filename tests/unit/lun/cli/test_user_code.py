import importlib
import sys
from pathlib import Path

import pytest

from ldm.admission import may_import
from lun.cli.user_code import admit_user_code, warn_of_unused


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as somebody could share it; what it brings into the process is forgotten afterwards."""
    before, finders = set(sys.modules), list(sys.meta_path)
    (tmp_path / "lun" / "local").mkdir(parents=True)
    (tmp_path / "lun" / "local" / "colours.py").write_text("NAME = 'drawer'\n")
    (tmp_path / "lun" / "other.py").write_text("raise RuntimeError('ran')\n")
    (tmp_path / "shared_by_somebody.py").write_text("NAME = 'beside'\n")
    yield tmp_path
    sys.meta_path[:] = finders
    for name in set(sys.modules) - before:
        if name.startswith(("lun.local", "shared_by_somebody")):
            del sys.modules[name]


def test_the_drawer_of_the_folder_is_found_by_its_name(home: Path) -> None:
    admit_user_code(home=home)
    assert importlib.import_module("lun.local.colours").NAME == "drawer"


def test_the_drawer_of_another_folder_is_found_after_it(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "lun" / "local").mkdir(parents=True)
    (other / "lun" / "local" / "sorters.py").write_text("NAME = 'another drawer'\n")
    admit_user_code(home=home)
    assert importlib.import_module("lun.local.colours").NAME == "drawer"
    admit_user_code(home=other)
    assert importlib.import_module("lun.local.sorters").NAME == "another drawer"


@pytest.mark.parametrize("name", ["shared_by_somebody", "lun.other"])
def test_nothing_else_of_the_folder_is_importable(home: Path, name: str) -> None:
    admit_user_code(home=home)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(name)


def test_an_allowed_package_is_found_in_the_folder(home: Path) -> None:
    admit_user_code(["shared_by_somebody"], home)
    assert importlib.import_module("shared_by_somebody").NAME == "beside"
    assert may_import("shared_by_somebody.Thing")


def test_what_is_installed_wins_over_an_allowed_file_of_the_same_name(home: Path) -> None:
    (home / "fractions.py").write_text("raise RuntimeError('ran')\n")
    admit_user_code(["fractions"], home)
    sys.modules.pop("fractions")
    assert importlib.import_module("fractions").Fraction(1, 2) == 0.5


def test_the_next_call_takes_the_permission_back(home: Path) -> None:
    admit_user_code(["shared_by_somebody"], home)
    admit_user_code(home=home)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("shared_by_somebody")


def test_an_allowed_package_that_nothing_uses_is_noted(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    (home / "mine.py").write_text("class Own: ...")
    admit_user_code(["mine", "unused_one", "fractions"], home)
    assert importlib.import_module("mine")
    warn_of_unused({"model": {"params": [{"target": "fractions.Fraction"}]}})
    del sys.modules["mine"]
    assert [line for line in caplog.messages if line.startswith("note:")] == [
        "note: --allow unused_one: no target of the configuration lies in it"
    ]
