"""The Dockerfile's own steps, read from it: each finds what it names, and they make a place where lun trains."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

PLACES = ("/opt/venv", "/home/lun", "/usr/local/bin/lun-entry", "/lun")


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """(`RUN`, its text) of each instruction, comments left out and lines joined."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for line in re.sub(r"\s*\\\n\s*", " ", "\n".join(lines)).splitlines():
        if line.strip():
            word, _, rest = line.partition(" ")
            yield word, rest


@pytest.fixture(scope="module")
def steps(repo_root: Path) -> list[tuple[str, str]]:
    return list(instructions((repo_root / "docker/Dockerfile").read_text()))


@pytest.fixture(scope="module")
def ignored(repo_root: Path) -> list[str]:
    return (repo_root / ".dockerignore").read_text().split()


def test_all_kinds_share_one_base(steps: list[tuple[str, str]]) -> None:
    assert [rest for word, rest in steps if word == "FROM"] == ["${BASE}"]
    assert ("ARG", "BASE=docker.io/library/python:3.11-slim") in steps


def test_it_runs_one_program_and_watches_nothing(steps: list[tuple[str, str]]) -> None:
    assert {word for word, _ in steps} == {"ARG", "FROM", "RUN", "ENV", "WORKDIR", "COPY", "ENTRYPOINT"}
    assert ("ENTRYPOINT", '["tini", "--", "lun-entry"]') in steps


def test_whatever_is_copied_is_there_and_not_ignored(
    repo_root: Path, steps: list[tuple[str, str]], ignored: list[str]
) -> None:
    sources = [name for word, rest in steps if word == "COPY" for name in rest.split()[:-1]]
    assert [name for name in sources if not (repo_root / name).exists()] == []
    assert [name for name in sources if any(fnmatch(name, pattern) for pattern in ignored)] == []


def test_what_is_the_persons_own_stays_out_of_the_image(ignored: list[str]) -> None:
    assert {".git", "logs", "lun/local", ".venv*"} <= set(ignored)


class Image:
    """A folder in which the steps are carried out as in an image; only Debian's packages are taken as given."""

    def __init__(self, context: Path, place: Path, arguments: dict[str, str]) -> None:
        self.context, self.place, self.work = context, place, context
        self.variables = {name: value for name, value in os.environ.items() if not name.startswith("LUN_")}
        self.arguments = arguments

    def moved(self, text: str) -> str:
        """Paths of the image as paths below the folder."""
        for inside in PLACES:
            text = re.sub(rf"(?<![\w./]){inside}(?![\w-])", f"{self.place}{inside}", text)
        return text

    def carry_out(self, word: str, rest: str) -> None:
        if word == "ENV":
            for pair in shlex.split(rest):
                name, _, value = pair.partition("=")
                value = f"{self.place}/opt/venv/bin:{os.environ['PATH']}" if name == "PATH" else self.moved(value)
                self.variables[name] = value.replace("${KIND}", self.arguments["KIND"])
        elif word == "WORKDIR":
            self.work = Path(self.moved(rest))
            self.work.mkdir(parents=True)
        elif word == "COPY":
            self.copy(*rest.split())
        elif word == "RUN" and "apt-get" not in rest:
            done = self.run(re.sub(r"--mount=\S+", "", self.moved(rest)), **self.arguments)
            assert done.returncode == 0, done.stderr

    def copy(self, *names: str) -> None:
        *sources, target = (*names[:-1], self.moved(names[-1]))
        for name in sources:
            source, goal = self.context / name, self.work / target
            if source.is_dir():
                shutil.copytree(source, goal, dirs_exist_ok=True)
            else:
                goal = goal / source.name if target.endswith("/") else goal
                goal.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, goal)

    def run(self, command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """What `sh -c` makes of a command, with the image's variables."""
        return subprocess.run(
            ["sh", "-c", command], cwd=self.work, env=self.variables | more, capture_output=True, text=True
        )


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_steps_make_a_place_where_lun_trains(
    repo_root: Path, tmp_path: Path, steps: list[tuple[str, str]], ignored: list[str]
) -> None:
    context = shutil.copytree(repo_root, tmp_path / "context", ignore=shutil.ignore_patterns("__pycache__", *ignored))
    image = Image(context, tmp_path / "image", {"KIND": "cpu"})
    for word, rest in steps:
        image.carry_out(word, rest)
    entry = image.moved("bash /usr/local/bin/lun-entry")
    assert image.run("python -c 'import torch, lun; print(torch.version.cuda, lun.__file__)'").stdout.split() == [
        "None",
        f"{image.place}/lun/lun/__init__.py",
    ]
    assert image.run(f"{entry} lun-train --version").stdout.startswith("lun 0.")
    assert image.run(f"{entry} sh -c 'exit 43'").returncode == 43
    base = "--base configs/training-lightning.yaml configs/demo/emoji.yaml --max_steps 2 --accelerator cpu -t"
    trained = image.run(f"{entry} python main.py {base}")
    assert trained.returncode == 0, trained.stderr
    assert (image.work / "logs/latest/checkpoints/last.ckpt").is_file()
