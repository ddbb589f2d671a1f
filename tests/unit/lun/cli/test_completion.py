"""What a shell offers by the printed scripts: bash itself is asked, with the words of a line as it hands them over."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from lun.cli.completion import script_of_training
from lun.cli.flags import FLAGS
from lun.config.reading.presets import presets
from lun.config.trainer_arguments import trainer_arguments
from lun.sample.command import run as sample
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
    ("python", "-m", "lun.unknown", "--ad"): set(),
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
        printed = Printed(patch)
        texts = [script_of_training("bash"), printed.by(lambda: sample(["--print-completion", "bash"]))]
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

    def by(self, command: object) -> str:
        said: list[str] = []
        self.patch.setattr("builtins.print", lambda *words, **_: said.append(" ".join(map(str, words))))
        assert callable(command) and command() == 0
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


def test_another_shell_is_refused_with_those_there_are(tmp_path: Path) -> None:
    assert run(["--print-completion", "elvish"]) == 2
