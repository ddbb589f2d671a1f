"""Families by the names that installed packages give them."""

import sys
from pathlib import Path

import pytest

from ldm.errors import Fault
from ldm.families.installed import hint, path_of


def install(site: Path, name: str, *entries: str) -> None:
    """What `pip install` leaves of a package without a module of that name: importing it would fail."""
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
    (folder / "entry_points.txt").write_text("\n".join(["[lun.families]", *entries, ""]), "utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


def test_an_installed_name_stands_for_a_path_and_nothing_is_imported(site: Path) -> None:
    install(site, "absent", "my-dit = absent.records:MY_DIT", "v1.5 = absent:OLD")
    assert path_of("my-dit") == "absent.records.MY_DIT"
    assert path_of("v1.5") == "absent.OLD"
    assert path_of("own.module.FAMILY") == "own.module.FAMILY"
    assert "absent" not in sys.modules
    assert hint() == "; installed, and known where they are named: family=my-dit, family=v1.5"


def test_a_name_that_nobody_has_says_which_there_are(site: Path) -> None:
    with pytest.raises(Fault, match="CFG04.*there is no family my-dti") as none:
        path_of("my-dti")
    assert none.value.why == "no installed package has one" and hint() == ""
    install(site, "absent", "my-dit = absent:MY_DIT")
    with pytest.raises(Fault) as some:
        path_of("my-dti")
    assert some.value.why == "installed are my-dit" and "MODULE.MY_DTI" in some.value.fix


def test_a_name_of_two_packages_is_refused_with_both(site: Path) -> None:
    install(site, "one", "dit = one:A")
    install(site, "two", "dit = two:A")
    with pytest.raises(Fault, match="two packages have a family dit") as told:
        path_of("dit")
    assert sorted(told.value.why.split("; ")) == ["one:A of one", "two:A of two"]
