"""What pyproject.toml asks for, constraints.txt pins; torch and torchvision stay out of pip's hands."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from ldm.admission import LIBRARIES, OPTIMIZERS, PROJECT


@pytest.fixture(scope="module")
def project(repo_root: Path) -> dict:
    return tomllib.loads((repo_root / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def pins(repo_root: Path) -> dict[str, Requirement]:
    lines = (repo_root / "constraints.txt").read_text().splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert len(found) == len({canonicalize_name(pin.name) for pin in found}), "a package is pinned twice"
    return {canonicalize_name(pin.name): pin for pin in found}


def asked(project: dict) -> list[Requirement]:
    """Every requirement of the project and of its extras."""
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(line) for names in lists for line in names]


def pinned_version(pin: Requirement) -> Version:
    (specifier,) = pin.specifier
    assert specifier.operator == "==" and "*" not in specifier.version, f"{pin} is no exact pin"
    return Version(specifier.version)


def needs(name: str, extras: set[str]) -> list[Requirement]:
    """What an installed package asks for on this machine."""
    lines = metadata.requires(name) or []
    found = [Requirement(line) for line in lines]
    wanted = [{"extra": extra} for extra in ("", *extras)]
    return [need for need in found if not need.marker or any(need.marker.evaluate(at) for at in wanted)]


def test_constraints_do_not_name_torch(pins: dict[str, Requirement]) -> None:
    assert "torch" not in pins


def test_torchvision_is_asked_for_nowhere(project: dict, pins: dict[str, Requirement]) -> None:
    assert "torchvision" not in {canonicalize_name(need.name) for need in asked(project)}
    assert "torchvision" not in pins


def test_every_requirement_is_pinned_within_its_range(project: dict, pins: dict[str, Requirement]) -> None:
    for need in asked(project):
        if need.name == "torch":
            continue
        pin = pins.get(canonicalize_name(need.name))
        assert pin is not None, f"{need.name} is not in constraints.txt"
        assert need.specifier.contains(pinned_version(pin), prereleases=True), f"{pin} is outside {need}"


def test_what_the_packages_need_in_turn_is_pinned_too(project: dict, pins: dict[str, Requirement]) -> None:
    waiting = [Requirement(line) for line in project["dependencies"] + project["optional-dependencies"]["test"]]
    seen: set[str] = {"torch", "setuptools"}  # torch chooses its own setuptools
    while waiting:
        need = waiting.pop()
        name = canonicalize_name(need.name)
        if name in seen:
            continue
        seen.add(name)
        assert name in pins, f"{name} is installed by pip but not in constraints.txt"
        waiting += needs(name, need.extras)


def test_constraints_are_sorted(pins: dict[str, Requirement]) -> None:
    assert list(pins) == sorted(pins)


def test_the_python_versions_are_those_that_setup_accepts(project: dict) -> None:
    assert project["requires-python"] == ">=3.11,<3.14"


def test_every_package_that_a_preset_names_is_allowed_and_comes_with_the_project_or_an_extra(
    project: dict, repo_root: Path
) -> None:
    files = list(repo_root.glob("configs/**/*.yaml"))
    named = {package for file in files for package in re.findall(r"target: (\w+)\.", file.read_text("utf-8"))}
    assert {"torch", "bitsandbytes", "lun"} <= named <= {*PROJECT, *LIBRARIES}
    assert {canonicalize_name(name) for name in named - {*PROJECT}} <= {
        canonicalize_name(need.name) for need in asked(project)
    }
    extra = {Requirement(line).name for line in project["optional-dependencies"]["optim"]}
    assert set(OPTIMIZERS) <= extra, "scripts/setup.sh --extra optim brings every optimizer that a config may name"


def test_every_extra_is_offered_where_a_person_looks(project: dict, repo_root: Path) -> None:
    extras = project["optional-dependencies"].keys()
    usage = (repo_root / "scripts/setup.sh").read_text().partition("environment:")[0]
    assert extras <= set(re.findall(r"\w+", usage))
    assert extras == rows_of_extras(repo_root).keys()
    image = (repo_root / "docker/Dockerfile").read_text()
    assert set(re.findall(r"--extra (\w+)", image)) == extras - {"test"}


def rows_of_extras(repo_root: Path) -> dict[str, str]:
    """{extra: the row of the table in docs/install.md}."""
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", (repo_root / "docs/install.md").read_text(), re.MULTILINE)
    return dict(rows)


def with_those_below(path: Path) -> str:
    """The text of a preset and of all that it extends."""
    text = path.read_text()
    below = (yaml.safe_load(text) or {}).get("extends", [])
    return "\n".join([text, *(with_those_below(path.parent / f"{name}.yaml") for name in below)])


def test_a_preset_that_needs_an_extra_is_named_beside_it(project: dict, repo_root: Path) -> None:
    brings = {
        Requirement(line).name: extra
        for extra, lines in project["optional-dependencies"].items()
        if extra != "test"
        for line in lines
    }
    rows, needing = rows_of_extras(repo_root), 0
    for path in sorted((repo_root / "configs/options").glob("*.yaml")):
        for package in re.findall(r"(?:target|strategy): (\w+)", with_those_below(path)):
            if extra := brings.get(package):
                needing += 1
                assert f"`{path.stem}`" in rows[extra], f"{path.stem} needs {package}, which {extra} brings"
    assert needing >= 9
