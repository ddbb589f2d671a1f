"""Each way in which Python and the packages may not fit."""

from pathlib import Path

import pytest
from packaging.requirements import Requirement

from ldm import missing_packages
from lun.doctor.packages import (
    examine_compiler,
    examine_packages,
    examine_python,
    examine_torchvision,
    examine_vocabulary,
)

NEEDS = [Requirement("omegaconf>=2.4,<2.5"), Requirement("torch>=2.9")]
HERE = {"omegaconf": "2.4.0", "torch": "2.13.0+cpu"}


@pytest.mark.parametrize(("version", "level"), [((3, 10), "FAIL"), ((3, 11), "OK"), ((3, 13), "OK"), ((3, 14), "FAIL")])
def test_python_has_to_be_a_supported_one(version: tuple[int, int], level: str) -> None:
    assert examine_python(version, "3.x", True).level == level


def test_an_environment_of_its_own_is_told() -> None:
    assert "not in a virtual environment" in examine_python((3, 11), "3.11.9", False).detail


def test_packages_as_asked_for_and_as_tested_are_well() -> None:
    assert [finding.level for finding in examine_packages(HERE, NEEDS, {"omegaconf": "2.4.0"})] == ["OK", "OK"]


def test_a_missing_package_fails_by_name() -> None:
    needed, _ = examine_packages({"torch": "2.13.0"}, NEEDS, {})
    assert (needed.level, needed.detail) == ("FAIL", "omegaconf is missing")


def test_a_version_outside_its_range_fails_with_the_range() -> None:
    needed, _ = examine_packages(HERE | {"torch": "2.8.0"}, NEEDS, {})
    assert (needed.level, needed.detail) == ("FAIL", "torch 2.8.0 is not >=2.9")


def test_other_versions_than_the_tested_ones_are_a_warning() -> None:
    _, tested = examine_packages(HERE, NEEDS, {"omegaconf": "2.4.9"})
    assert tested.level == "WARN" and "omegaconf 2.4.0 (2.4.9)" in tested.detail


def test_a_pin_of_something_that_is_not_installed_does_not_count() -> None:
    assert examine_packages(HERE, NEEDS, {"deepspeed": "0.19.8"})[1].level == "OK"


def test_many_other_versions_are_counted() -> None:
    pins = {f"package{number}": "2" for number in range(9)}
    _, tested = examine_packages(dict.fromkeys(pins, "1"), [], pins)
    assert tested.detail.endswith("package5 1 (2) and 3 more")


def test_no_torchvision_is_well() -> None:
    assert examine_torchvision(None, "").level == "OK"


def test_a_torchvision_that_fits_is_well() -> None:
    assert examine_torchvision("0.28.0", "").level == "OK"


def test_a_torchvision_that_does_not_fit_fails_and_goes() -> None:
    finding = examine_torchvision("0.28.0", "operator torchvision::nms does not exist")
    assert finding.level == "FAIL" and finding.fix.endswith(" -m pip uninstall -y torchvision")


@pytest.mark.parametrize(("error", "level"), [("", "OK"), ("it has 2 tokens instead of 49408", "FAIL")])
def test_a_tokenizer_without_its_vocabulary_fails(error: str, level: str) -> None:
    assert examine_vocabulary(error).level == level


def test_without_a_compiler_training_works_but_not_as_it_could() -> None:
    assert (examine_compiler(True).level, examine_compiler(False).level) == ("OK", "WARN")


def test_a_python_that_does_not_fit_a_wheel_is_answered_without_a_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "scripts/setup.sh" in examine_python((3, 14), "3.14.0", True).fix
    monkeypatch.setattr(missing_packages, "PROJECT", tmp_path)
    assert examine_python((3, 14), "3.14.0", True).fix.startswith("python3.11 -m venv ")
