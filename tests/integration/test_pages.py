"""Every command that a page shows is typed as it stands; tools that are not here are stand-ins.

Which kind a command is of decides `KINDS`; one of no kind fails. What needs a GPU, full-size weights or the hub goes up
to its plan. All of it happens in one process; the slow part types the commands for the program itself in a shell whose
Python is that of the environment, as a reader would.
"""

import contextlib
import importlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.desk import Desk, desk_at
from support.machine import Machine
from support.pages import PAGES, ROOT, Command, commands, every_command, fenced, unquoted
from support.radeon import Card
from support.run_folder import log_metrics, make_run

from lun.callbacks.controls import COMMANDS as CONTROLS
from lun.run_dir.directory import VARIABLE

ALL = every_command()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CARRIED_OUT = (
    "docs/own-family.md:",  # in its own order, by tests/seams/test_own_family_page.py
    "docs/recipes.md:",  # with the files that it shows, by tests/integration/test_recipes.py
)
SHELL_WORDS = re.compile(
    r"^\s*(?:\w+=\S+ )?(?:python|bash|pip|docker|docker/\S+|torchrun|sbatch|touch|sudo|hf|mkdir|cd) "
)
OWN = {"CONFIGS", "YOURS.yaml", "-r"}  # what names a tiny run, which is trained and not only planned
SMALLER = {  # what makes a command with tiny stand-ins as quick as they are, or content with them
    "FILE": ["--steps", "1", "--size", "64x64"],
    "200": ["--count", "2"],
    "sweep": ["--force"],
    "logs/known": ["--prompts", "prompts.txt"],
    "--demo": ["--train", "false"],
    "emoji-lora": ["--check"],
    "lun.publish": ["--dry-run"],
    "lun.board": ["--once"],  # else it serves until somebody stops it
    "lun.sweep": ["--slurm"],  # else it trains each run
    "emoji-ti": ["--check"],
    "masks.yaml": ["--check"],  # DIR has none
    "xl-16-channels": ["--check"],  # another model's first stage would be fetched
}
SHELLS_OWN = ("export ", "if ")


def smaller(words: list[str]) -> list[str]:
    """What `SMALLER` adds to a command; training takes no number of steps by that name."""
    kept = [word for word in words if not (word == "FILE" and "main.py" in words)]
    kept = [word for word in kept if not (word == "lun.sweep" and "--search" in words)]  # its runs are made up
    return [more for word in kept for more in SMALLER.get(word, [])]


def made_up(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """A run of a search, which takes as many as a page says."""
    log_metrics(make_run(Path(variables[VARIABLE]), samples=False), {101: {"val/loss": len(words[-1])}})
    return 0


class Shop:
    """A desk to type commands at, and stand-ins for what this machine has not."""

    def __init__(self, desk: Desk, place: Path) -> None:
        self.desk, self.place = desk, place
        self.machine = Machine(ROOT, place / "machine").has("docker", "cuda", "rocm")
        self.card = Card(place / "radeon", 0)

    def python(self, words: list[str]) -> None:
        """`python main.py` or `python -m lun.X`: the command's own `run` with these words."""
        words = [*words, *smaller(words)]
        name = f"{words[1]}.command" if words[0] == "-m" else "lun.trainer"
        given = words[2:] if words[0] == "-m" else words[1:]
        self.desk.lay("kohya" in given)
        if name == "lun.trainer":
            given = [word for word in given if word != "-t" or OWN & set(given)] + self.from_the_hub(given)
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            run = importlib.import_module(name).run
            code = run(given, made_up) if "--search" in given else run(given)
        assert code == 0 or (code == 1 and given == ["--doctor"]), said.getvalue()[-3000:]

    def from_the_hub(self, words: list[str]) -> list[str]:
        """The stand-in for the weights that a model of configs/models names, where no others are given."""
        models = [
            Path(word).stem
            for word in words
            if (ROOT / "configs/models" / Path(word).stem).with_suffix(".yaml").exists()
        ]
        return ["--init-from", str(self.desk.published(models[0]))] if models and "--init-from" not in words else []

    def installed(self, words: list[str]) -> None:
        """`lun-sample` as `python -m lun.sample`, which begins in the same function."""
        target = PROJECT["scripts"][words[0]].partition(":")[0].removesuffix(".__main__")
        self.python(["main.py", *words[1:]] if words[0] == "lun-train" else ["-m", target, *words[1:]])

    def pip(self, words: list[str]) -> None:
        """What pip is given is this project, with extras that it has."""
        asked = re.fullmatch(r"\.(?:\[([\w,]+)\])?", words[2])
        assert words[:2] == ["pip", "install"] and asked, words
        assert set((asked[1] or "wandb").split(",")) <= PROJECT["optional-dependencies"].keys()

    def launched(self, words: list[str]) -> None:
        """What starts `main.py` on many devices: the configuration has no faults."""
        at = next(number for number, word in enumerate(words) if word == "main.py" or word.startswith("scripts/"))
        assert words[0] in ("python", "sbatch", "srun") or Path(sys.executable).with_name(words[0]).is_file(), words[0]
        assert (self.desk.at / words[at]).is_file()
        self.python(["main.py", *(word for word in words[at + 1 :] if word != "-t"), "--check"])

    def container(self, words: list[str]) -> None:
        """docker/start.sh as written, with an engine that tells what it is asked; then what runs inside."""
        options, inside = split(words[1:])
        if "--data_root" in inside:
            assert "--data" in options, "what is outside of the project is not in a container unless it is given"
        if "--data" in options:
            options[options.index("--data") + 1] = str(ROOT / "configs/demo/data/train")
        shown = self.machine.printed(
            *(word for word in options if word != "--print"), *(["--", *inside] if inside else [])
        )
        assert shown[-1][:2] == ["docker", "run"] and shown[-1][len(shown[-1]) - len(inside) :] == inside
        if inside:
            self.launched(inside) if "--devices" in inside else self.python(inside[1:])

    def composed(self, words: list[str]) -> None:
        file, profile = words[words.index("--file") + 1], words[words.index("--profile") + 1]
        at = words.index("--rm") + 1
        services = yaml.safe_load((ROOT / file).read_text("utf-8"))["services"]
        assert profile in services[words[at]]["profiles"]
        self.python(words[at + 2 :])

    def power(self, words: list[str]) -> None:
        self.shell(shlex.join(word for word in words if word != "sudo"), LUN_SYSROOT=str(self.place / "radeon"))

    def script(self, words: list[str]) -> None:
        """scripts/setup.sh, demo.sh, test.sh as written, with a Python that only tells what it is asked."""
        line = shlex.join(words) if "=" not in words[0] else words[0] + " " + shlex.join(words[1:])
        project = self.place / "project"
        if not project.exists():
            names = ("setup.sh", "fault.sh", "machine.sh", "installed.py", "demo.sh", "test.sh", "lint.sh")
            for name in (*(f"scripts/{name}" for name in names), "pyproject.toml", "constraints.txt"):
                (project / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, project / name)
            stand_in(project / "bin")
        told = project / "told"
        told.unlink(missing_ok=True)
        path = f"{project / 'bin'}:{os.environ['PATH']}"
        self.shell(line, cwd=project, PATH=path, STATE=str(project), LUN_VENV=str(project / ".venv"))
        if "test.sh" in line and "-m" in words:
            assert shlex.join(words[words.index("-m") :]) in told.read_text()
        if "demo.sh" in line:
            assert "main.py --demo" in told.read_text()

    def control(self, words: list[str]) -> None:
        path = Path(words[1])
        assert path.parts[:3] == ("logs", "latest", "control") and path.name in CONTROLS
        self.shell(shlex.join(words))
        path.unlink()

    def shell(self, line: str, cwd: Path | None = None, **variables: str) -> None:
        """A line for bash itself. What this machine's settings say about devices and places does not count."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LUN_")}
        environment = {**kept, "HOME": str(self.place), **variables}
        done = subprocess.run(
            ["bash", "-euc", line], cwd=cwd or self.desk.at, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def split(words: list[str]) -> tuple[list[str], list[str]]:
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at + 1 :]


def stand_in(folder: Path) -> None:
    """A Python 3.11 with a CPU torch that makes environments of itself and writes down everything else."""
    folder.mkdir()
    (folder / "python3").write_text(
        """#!/usr/bin/env bash
echo "${0##*/} $*" >>"$STATE/told"
case "$*" in
  --version) echo "Python 3.11.9" ;;
  *installed.py\\ python) echo "3.11 $STATE/bin/python3" ;;
  *installed.py\\ torch) echo "2.13.0 ${LUN_TORCH:-cpu}" ;;
  -m\\ venv\\ *)
    mkdir -p "${@: -1}/bin" && touch "${@: -1}/pyvenv.cfg"
    for name in python mypy ruff shellcheck hadolint; do cp "$0" "${@: -1}/bin/$name"; done
    ;;
esac
"""
    )
    (folder / "python3").chmod(0o755)


KINDS: list[tuple[str, Callable[[Shop, Command], None]]] = [
    (r"python (main\.py|-m lun\.)", lambda shop, command: shop.python(command.words[1:])),
    (r"lun-[a-z-]+\b", lambda shop, command: shop.installed(command.words)),
    (r"pip install ", lambda shop, command: shop.pip(command.words)),
    (r"(torchrun|sbatch|srun) ", lambda shop, command: shop.launched(command.words)),
    (r"docker/start\.sh\b", lambda shop, command: shop.container(command.words)),
    (r"docker compose ", lambda shop, command: shop.composed(command.words)),
    (r"(sudo )?bash scripts/amd-power\.sh\b", lambda shop, command: shop.power(command.words)),
    (r"(LUN_TORCH=\w+ +)?bash scripts/(setup|demo|test)\.sh\b", lambda shop, command: shop.script(command.words)),
    (r"touch logs/latest/control/", lambda shop, command: shop.control(command.words)),
    (r"source \.venv/bin/activate", lambda shop, command: shop.script(["bash", "scripts/setup.sh"])),
    (r"(export|mkdir) ", lambda shop, command: shop.shell(command.line)),
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    place = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as monkeypatch:
        for desk in desk_at(place, monkeypatch):
            yield Shop(desk, tmp_path_factory.mktemp("shop"))


def each_once(found: list[Command]) -> Iterator[Any]:
    """Of the commands that count a full-size model, which takes ten seconds, only the first is for the quick part."""
    counting = [command for command in found if "python -m lun.memory" in command.line]
    for command in found:
        if str(command).startswith(CARRIED_OUT):
            continue
        yield pytest.param(command, id=str(command), marks=pytest.mark.slow if command in counting[1:] else [])


@pytest.mark.parametrize("command", [*each_once(ALL)])
def test_a_command_works_as_it_is_shown(command: Command, shop: Shop) -> None:
    handlers = [handler for pattern, handler in KINDS if re.match(pattern, command.line)]
    assert handlers, f"{command} is of no kind that this test knows"
    if not command.line.startswith(SHELLS_OWN):
        assert not unquoted(command.line.split(" # ")[0]), f"quote it for a shell: {command}"
    handlers[0](shop, command)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_shows_commands_in_blocks_for_a_shell_alone(path: Path) -> None:
    """Else the test above would not see them."""
    others = "\n".join(text for language, _, text in fenced(path) if language != "sh")
    indented = re.findall(
        r"^    \S.*$", re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.DOTALL), re.MULTILINE
    )
    assert [line for line in [*others.splitlines(), *indented] if SHELL_WORDS.match(line)] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_reader_types_the_commands_of_the_program_in_a_shell(shop: Shop, tmp_path: Path) -> None:
    """In a copy of the project, after README's `source .venv/bin/activate`; what would take hours is shown its plan.

    A search is left out: it trains as many runs as the page says. So are pages that other tests carry out.
    """
    (tmp_path / ".venv").symlink_to(sys.prefix)
    shop.desk.lay(False)
    for name in ("ldm", "lun", "main.py", "configs", "scripts", "docker", "pyproject.toml", "constraints.txt"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    for path in shop.desk.at.iterdir():
        if not (tmp_path / path.name).exists():
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "lun" / "local").symlink_to(shop.desk.at / "lun" / "local")
    typed = [command for command in ALL if command.line.startswith("python ") and "--search" not in command.words]
    typed = [command for command in typed if not str(command).startswith(CARRIED_OUT)]
    installed = {distribution.name for distribution in distributions()}  # a stand-in is none
    absent = {"bitsandbytes", "onnxruntime"} - installed
    for command in typed:
        shop.desk.lay("kohya" in command.words)
        words = command.words
        if words[1] == "main.py":
            words = [word for word in words if word != "-t" or OWN & set(words)] + shop.from_the_hub(words)
        words += smaller(command.words)
        line = f"source .venv/bin/activate && {shlex.join(words)}"
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)
        missing = "error[DEP01]" in done.stderr and any(name in done.stderr for name in absent)
        assert done.returncode == (7 if missing else 0) or "--doctor" in words, f"{command}\n{done.stderr[-2000:]}"
    print(f"{len(typed)} commands typed in a shell")


def test_the_pages_are_found() -> None:
    assert {"README.md", "docs/ema.md", "configs/README.md"} <= {path.relative_to(ROOT).as_posix() for path in PAGES}
    assert len(ALL) > 60 and len({command.page for command in ALL}) > 10
    print(f"{len(ALL)} commands of {len(PAGES)} pages, {sum(len(commands(path)) for path in PAGES)} lines")
