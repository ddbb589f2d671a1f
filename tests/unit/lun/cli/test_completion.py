"""What a shell offers by the printed scripts: bash itself is asked, with the words of a line as it hands them over."""

import importlib
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from lun.cli.completion import script_of_training
from lun.cli.flags import FLAGS
from lun.config.reading.presets import presets
from lun.config.trainer_arguments import trainer_arguments
from lun.trainer import run

ASK = """
asked() {
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    "$function" 2> /dev/null
    echo "${COMPREPLY[*]}"
}
"""
LINES: dict[tuple[str, ...], set[str]] = {
    ("lun-train", "--print-c"): {"--print-config", "--print-completion"},
    ("lun-train", "--base", "sdx"): {"sdxl", "sdxl-inpainting"},
    ("lun-train", "--base", "sd15", "bf16-m"): {"bf16-master"},
    ("lun-train", "--base", "min"): {"mine.yaml", "min-snr"},
    ("lun-train", "--scale_lr", "s"): {"sqrt"},
    ("lun-train", "--data_root", "pic"): {"pictures"},
    ("lun-train", "--max_st"): {"--max_steps"},
    ("python", "main.py", "--doc"): {"--doctor"},
    ("python", "./main.py", "-b", "sd35-l"): {"sd35-large"},
    ("python", "other.py", "--doc"): set(),
    ("python", "-m", "lun.sample", "--ad"): {"--adapter"},
    ("python", "-m", "lun.sample", "run", "--dtype", "b"): {"bf16"},
    ("python", "-m", "lun.convert", "a", "b", "--to", "k"): {"kohya"},
    ("python", "-m", "lun.convert", "--no-"): {"--no-ema"},
    ("python", "-m", "lun.memory", "--base", "sdx"): {"sdxl", "sdxl-inpainting"},
    ("python", "-m", "lun.data.cache", "--data_"): {"--data_root"},
    ("python", "-m", "lun.posthoc_ema", "recon"): {"reconstruct"},
    ("python", "-m", "lun.unknown", "--ad"): set(),
}
ROOT = Path(__file__).resolve().parents[4]
BEGINS = re.compile(r'enter\("([\w.]+)"\)')
COMMANDS = {
    path.parent.relative_to(ROOT).as_posix().replace("/", "."): path for path in ROOT.glob("lun/**/__main__.py")
}
FUNCTIONS = {"lun-train": "_shtab_main_py", "python": "_lun_python"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, ...], set[str]]:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    folder = tmp_path_factory.mktemp("completed")
    (folder / "pictures").mkdir()
    (folder / "mine.yaml").touch()
    with pytest.MonkeyPatch.context() as patch:
        texts = [script_of_training("bash"), *(Printed(patch).script(name) for name in COMMANDS)]
    asked = [f"function={FUNCTIONS[line[0]]} asked {shlex.join(line)}" for line in LINES]
    done = subprocess.run(
        ["bash", "--norc", "-euo", "pipefail", "-c", "\n".join(["set +eu", *texts, ASK, *asked])],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.stderr == "", done.stderr
    return {line: set(said.split()) for line, said in zip(LINES, done.stdout.splitlines(), strict=True)}


class Printed:
    """What a command prints, caught where a fixture has no `capsys`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch

    def script(self, name: str, shell: str = "bash") -> str:
        """That of `python -m NAME`."""
        begins = BEGINS.search(COMMANDS[name].read_text("utf-8"))
        said: list[str] = []
        self.patch.setattr("builtins.print", lambda *words, **_: said.append(" ".join(map(str, words))))
        assert begins and importlib.import_module(begins[1]).run(["--print-completion", shell]) == 0
        return "".join(said)


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_bash_offers_what_the_command_takes(answers: dict[tuple[str, ...], set[str]], line: tuple[str, ...]) -> None:
    assert answers[line] == LINES[line]


def test_every_option_and_every_preset_is_in_the_script_of_each_shell(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh"):
        assert run(["--print-completion", shell]) == 0
        text = capsys.readouterr().out
        options = [*FLAGS, *(f"--{name}" for name in trainer_arguments())]
        assert [name for name in [*options, *(preset.name for preset in presets())] if name not in text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_prints_its_script_for_each_shell_under_both_of_its_names(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bash runs its own above; no zsh is asked whether it can read the other."""
    text = Printed(monkeypatch).script(name, "zsh")
    installed = name.replace(".", "-").replace("_", "-")
    assert text.endswith(f"compdef _shtab_{name.replace('.', '_')} {name} {installed}\n")


def test_another_shell_is_refused_with_those_there_are(tmp_path: Path) -> None:
    assert run(["--print-completion", "elvish"]) == 2
